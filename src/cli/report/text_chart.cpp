#include "cli/report/text_chart.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/terminal.h"
#include "base/text.h"

namespace ct::report {
namespace {

constexpr int kLabel = 9;  // characters before the axis
constexpr int kLeastColumns = 30, kMostColumns = 1000;

/// A place for dots and letters: each cell is 2 x 4 dots of braille, or one of ASCII.
class Canvas {
 public:
  Canvas(int columns, int rows, bool unicode)
      : columns_(columns),
        rows_(rows),
        unicode_(unicode),
        dots_(static_cast<size_t>(columns * rows)),
        letters_(dots_.size()) {}

  int width() const { return columns_ * (unicode_ ? 2 : 1); }
  int height() const { return rows_ * (unicode_ ? 4 : 1); }

  void dot(int x, int y) {
    if (x < 0 || y < 0 || x >= width() || y >= height()) return;
    // Unicode numbers the dots 1 to 8 as 1 2 3 7 in the left column and 4 5 6 8 in the right one.
    constexpr uint8_t kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const size_t cell = unicode_ ? at(x / 2, y / 4) : at(x, y);
    dots_[cell] |= unicode_ ? kBits[y % 4][x % 2] : 1;
  }
  void line(int x1, int y1, int x2, int y2) {
    const int steps = std::max({std::abs(x2 - x1), std::abs(y2 - y1), 1});
    for (int i = 0; i <= steps; ++i) dot(x1 + (x2 - x1) * i / steps, y1 + (y2 - y1) * i / steps);
  }
  /// Letters in the cell of a dot, and in those after it.
  void write(int x, int y, const std::string& letters) {
    const int column = std::min(unicode_ ? x / 2 : x, columns_ - static_cast<int>(letters.size()));
    for (size_t i = 0; i < letters.size(); ++i)
      if (column >= 0) letters_[at(column + static_cast<int>(i), unicode_ ? y / 4 : y)] = letters[i];
  }

  std::string row(int r) const {
    std::string text;
    for (int c = 0; c < columns_; ++c) {
      const size_t cell = at(c, r);
      if (letters_[cell] != 0) {
        text += letters_[cell];
      } else if (dots_[cell] == 0) {
        text += ' ';
      } else if (unicode_) {  // U+2800 and the dots, as UTF-8
        text += '\xe2';
        text += static_cast<char>(0xa0 | (dots_[cell] >> 6));
        text += static_cast<char>(0x80 | (dots_[cell] & 0x3f));
      } else {
        text += '.';
      }
    }
    return text.erase(text.find_last_not_of(' ') + 1);
  }

 private:
  size_t at(int column, int row) const { return static_cast<size_t>(row * columns_ + column); }
  int columns_, rows_;
  bool unicode_;
  std::vector<uint8_t> dots_;
  std::vector<char> letters_;
};

bool is_number(const std::string& name) { return !name.empty() && name.find_first_not_of("0123456789") == name.npos; }

std::string letter_of(const Curve& curve) {
  return curve.name.empty() || curve.name == "train" ? "*"
         : is_number(curve.name)                     ? curve.name
                                                     : curve.name.substr(0, 1);
}

int rows_of(const Panel& panel) { return panel.height >= 200 ? 10 : 4; }

int row_of(double value, const Axis& y, int rows) {
  return static_cast<int>(std::lround((1 - y.place(value)) * (rows - 1)));
}

void draw_on(Canvas& canvas, const Panel& panel, const Axis& x, const Axis& y) {
  const auto column = [&](double v) { return static_cast<int>(std::lround(x.place(v) * (canvas.width() - 1))); };
  const auto row = [&](double v) { return row_of(v, y, canvas.height()); };
  for (const Curve& curve : panel.curves) {
    if (curve.faint) continue;
    const Point* before = nullptr;
    const std::vector<Point> points = thinned(curve.points, static_cast<size_t>(canvas.width()));
    for (const Point& point : points) {
      const bool there = !std::isnan(point.y);
      if (there && before) canvas.line(column(before->x), row(before->y), column(point.x), row(point.y));
      if (there && !before) canvas.dot(column(point.x), row(point.y));
      before = there ? &point : nullptr;
    }
  }
  for (const Curve& curve : panel.curves) {
    const Point* end = nullptr;
    for (const Point& point : curve.points) {
      if (curve.faint || std::isnan(point.y)) continue;
      if (curve.marks && !is_number(curve.name)) canvas.write(column(point.x), row(point.y), letter_of(curve));
      end = &point;
    }
    if (end && is_number(curve.name)) canvas.write(column(end->x), row(end->y), curve.name);
  }
}

/// "Accuracy (%)   v val   t test", on several lines if it is too long for one.
std::vector<std::string> heading(const Panel& panel, const Axis& y, size_t width) {
  std::vector<std::string> lines = {panel.title_with(y).substr(0, width)};
  for (const Curve& curve : panel.curves) {
    if (!curve.marks || is_number(curve.name) || curve.name.empty() || !range_of(curve.points)) continue;
    const std::string text = letter_of(curve) + " " + curve.name;
    if (lines.back().size() + 3 + text.size() <= width)
      lines.back() += "   " + text;
    else
      lines.push_back(text);
  }
  return lines;
}

std::string right_aligned(std::string text, int width) {
  return std::string(static_cast<size_t>(std::max(width - static_cast<int>(text.size()), 0)), ' ') + text;
}

/// The labels of the rows. One for a constant; otherwise of every n-th tick, so that there is a row between two of
/// them.
std::vector<std::string> labels_of(const Panel& panel, Range drawn, const Axis& y, int rows) {
  const auto row = [&](double v) { return static_cast<size_t>(row_of(v, y, rows)); };
  std::vector<std::string> labels(static_cast<size_t>(rows));
  const std::vector<double> ticks = drawn.size() > 0 ? y.ticks : std::vector{drawn.low};
  size_t every = 1;
  const auto are_crowded = [&] {
    for (size_t i = every; i < ticks.size(); i += every)
      if (row(ticks[i - every]) < row(ticks[i]) + 2) return true;
    return false;
  };
  while (!y.logarithmic && every + 1 < ticks.size() && are_crowded()) ++every;
  for (size_t i = 0; i < ticks.size(); i += every) labels[row(ticks[i])] = tick_label(ticks[i], panel.unit);
  return labels;
}

void add_panel(std::vector<std::string>& lines, const Panel& panel, double last_step, const Terminal& terminal) {
  const int columns = std::clamp(terminal.columns, kLeastColumns, kMostColumns) - kLabel - 2, rows = rows_of(panel);
  const Axis x = exact_axis({0, std::max(last_step, 1.0)}, std::max(columns / 20, 1));
  const Range drawn = *panel.drawn_range();
  const Axis y = panel.axis(drawn, std::max(rows / 3, 2));
  Canvas canvas(columns, rows, terminal.unicode);
  draw_on(canvas, panel, x, y);
  const std::vector<std::string> labels = labels_of(panel, drawn, y, rows);
  for (const std::string& line : heading(panel, y, static_cast<size_t>(columns + kLabel))) lines.push_back(line);
  for (int r = 0; r < rows; ++r) {
    const std::string& label = labels[static_cast<size_t>(r)];
    const char* const axis = !terminal.unicode ? "|" : label.empty() ? "\u2502" : "\u2524";
    lines.push_back(right_aligned(label, kLabel - 1) + " " + axis + canvas.row(r));
  }
  std::string below(static_cast<size_t>(kLabel + 1 + columns), ' '), ends = below;
  int free = 0;  // the first column that no label has
  for (const double tick : x.ticks) {
    const std::string label = tick_text(tick);
    const int at = kLabel + 1 + static_cast<int>(std::lround(x.place(tick) * (columns - 1))),
              begin = std::min(at - static_cast<int>(label.size()) / 2,
                               kLabel + 1 + columns - static_cast<int>(label.size()));
    if (begin < free) continue;
    below.replace(static_cast<size_t>(begin), label.size(), label);
    free = begin + static_cast<int>(label.size()) + 2;
  }
  std::string rule = std::string(kLabel, ' ') + (terminal.unicode ? "\u2514" : "+");
  for (int c = 0; c < columns; ++c) rule += terminal.unicode ? "\u2500" : "-";
  lines.push_back(rule);
  lines.push_back(below.erase(below.find_last_not_of(' ') + 1));
}

}  // namespace

Terminal terminal() {
  Terminal found;
  found.columns = terminal_columns(STDOUT_FILENO);
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (!value || !*value) continue;
    const std::string locale = lower_case(value);
    found.unicode = locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
    break;
  }
  return found;
}

std::vector<std::string> text_of(const Figure& figure, const Terminal& terminal) {
  std::vector<std::string> lines;
  for (const Panel& panel : figure.panels) {
    if (!panel.drawn_range()) continue;
    if (!lines.empty()) lines.emplace_back();
    add_panel(lines, panel, figure.last_step, terminal);
  }
  return lines;
}

}  // namespace ct::report
