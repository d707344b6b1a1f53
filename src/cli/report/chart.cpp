#include "cli/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "cli/report/style.h"

namespace ct::report {
namespace {

constexpr int kTitle = 30, kBelow = 30, kStepLabel = 18;  // px above and below the curves
constexpr double kWide = 1000;                            // units of a curve's x, whatever its width in px
constexpr size_t kColumns = 500;                          // spans of a curve, of up to four points each
constexpr size_t kMostMarks = 60;
constexpr double kNameGap = 13;  // px between names at curves' ends

constexpr std::array kDashes = {"", "7 4", "2 3", "10 3 2 3", "14 4", "4 2 1 2 1 2", "1 4"};

std::string px(double value) { return fmt::format("{:.1f}", value); }
std::string share(double value) { return fmt::format("{:.2f}%", 100 * value); }
std::string style_class(size_t style) { return str("s", style % kCurveColours); }

/// "12.5,30.0 12.6,31.4", a polyline for each part between gaps.
std::vector<std::string> polylines(const Curve& curve, const Axis& x, const Axis& y, double height) {
  std::vector<std::string> lines(1);
  for (const Point& point : thinned(curve.points, kColumns)) {
    if (std::isnan(point.y)) {
      if (!lines.back().empty()) lines.emplace_back();
      continue;
    }
    if (!lines.back().empty()) lines.back() += ' ';
    fmt::format_to(std::back_inserter(lines.back()), "{:.1f},{:.1f}", kWide * x.place(point.x),
                   height * (1 - y.place(point.y)));
  }
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

/// A circle, a square, a diamond or a triangle; its middle is a share of the width and a height in px.
void draw_mark(Markup& out, const std::string& x, double y, size_t style) {
  const std::string colour = style_class(style) + " mark";
  switch (style % 4) {
    case 0:
      return out.empty("circle", {{"class", colour}, {"cx", x}, {"cy", px(y)}, {"r", "3.5"}});
    case 1:
      return out.empty("rect", {{"class", colour},
                                {"x", x},
                                {"y", px(y)},
                                {"width", "6"},
                                {"height", "6"},
                                {"transform", "translate(-3 -3)"}});
    default:
      // A path cannot have a share of the width as its place: its own <svg> can.
      out.open("svg", {{"x", x}, {"y", px(y)}, {"overflow", "visible"}});
      out.empty("path",
                {{"class", colour}, {"d", style % 4 == 2 ? "M0 -4.5L4.5 0L0 4.5L-4.5 0Z" : "M0 -4.5L4 3.5H-4Z"}});
      out.close("svg");
  }
}

/// The last point that is there; none: there is none.
std::optional<Point> end_of(const Curve& curve) {
  for (size_t i = curve.points.size(); i-- > 0;)
    if (!std::isnan(curve.points[i].y)) return curve.points[i];
  return {};
}

void draw_panel(Markup& out, const Panel& panel, const Axis& x, const Axis& y, bool is_last) {
  const auto height_at = [&](double value) { return panel.height * (1 - y.place(value)); };
  for (const double tick : y.ticks) {
    const std::string at = px(height_at(tick));
    out.empty("line", {{"class", "grid"}, {"x1", "0"}, {"x2", "100%"}, {"y1", at}, {"y2", at}});
    out.element("text", tick_label(tick, panel.unit),
                {{"class", "tick left"}, {"x", "-6"}, {"y", px(height_at(tick) + 4)}});
  }
  for (size_t i = 0; i < x.ticks.size(); ++i) {
    const double tick = x.ticks[i];
    const std::string at = share(x.place(tick));
    out.empty("line", {{"class", "grid"}, {"x1", at}, {"x2", at}, {"y1", "0"}, {"y2", str(panel.height)}});
    out.element("text", tick_text(tick),
                {{"class", i % 2 == 0 ? "tick" : "tick second"}, {"x", at}, {"y", str(panel.height + 17)}});
  }
  if (is_last)
    out.element("text", "optimizer step",
                {{"class", "tick"}, {"x", "50%"}, {"y", str(panel.height + 17 + kStepLabel)}});
  out.open("svg", {{"width", "100%"},
                   {"height", str(panel.height)},
                   {"viewBox", fmt::format("0 0 {:g} {}", kWide, panel.height)},
                   {"preserveAspectRatio", "none"},
                   {"overflow", "visible"}});
  for (const bool faint : {true, false})
    for (const Curve& curve : panel.curves)
      if (curve.faint == faint)
        for (const std::string& line : polylines(curve, x, y, panel.height))
          out.empty("polyline", {{"class", style_class(curve.style) + (faint ? " curve faint" : " curve")},
                                 {"stroke-dasharray", kDashes[curve.style % kDashes.size()]},
                                 {"points", line}});
  out.close("svg");
  std::vector<const Curve*> named;
  std::vector<double> ends;
  for (const Curve& curve : panel.curves) {
    size_t there = 0;
    for (const Point& point : curve.points) there += !std::isnan(point.y);
    if (there == 1 || (curve.marks && there <= kMostMarks))  // a single point is no line
      for (const Point& point : curve.points)
        if (!std::isnan(point.y)) draw_mark(out, share(x.place(point.x)), height_at(point.y), curve.style);
    if (const std::optional<Point> end = end_of(curve); end && !curve.name.empty()) {
      named.push_back(&curve);
      ends.push_back(height_at(end->y));
    }
  }
  const std::vector<double> places = spread(ends, kNameGap, panel.height);
  for (size_t i = 0; i < named.size(); ++i)
    out.element(
        "text", named[i]->name,
        {{"class", style_class(named[i]->style) + " name"}, {"x", "100%"}, {"dx", "7"}, {"y", px(places[i] + 4)}});
}

void widen(std::optional<Range>& all, const std::optional<Range>& one) {
  if (!one) return;
  all = all ? Range{std::min(all->low, one->low), std::max(all->high, one->high)} : *one;
}

int height_of(const Panel& panel) { return kTitle + panel.height + kBelow; }

}  // namespace

std::string tick_label(double value, Unit unit) {
  return unit == Unit::percent ? tick_text(std::round(value * 1e6) / 1e4) : tick_text(value);
}

std::optional<Range> Panel::range() const {
  std::optional<Range> all;
  for (const Curve& curve : curves) widen(all, range_of(curve.points));
  return all;
}

std::optional<Range> Panel::drawn_range() const {
  std::optional<Range> all;
  for (const Curve& curve : curves)
    if (!curve.faint) widen(all, range_of(curve.points));
  return all;
}

Axis Panel::axis(Range shown, int wanted) const {
  return axis_for(shown, may_be_logarithmic && are_far_apart(drawn_range().value_or(shown)), wanted);
}

std::string Panel::title_with(const Axis& axis) const {
  return axis.logarithmic ? title + ", logarithmic axis" : title;
}

std::vector<double> spread(std::vector<double> ends, double gap, double height) {
  std::vector<size_t> order(ends.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return ends[i]; });
  if (ends.size() > 1) gap = std::min(gap, height / static_cast<double>(ends.size() - 1));
  double least = 0;
  for (const size_t i : order) {
    ends[i] = std::max(ends[i], least);
    least = ends[i] + gap;
  }
  double most = height;
  for (size_t k = order.size(); k-- > 0;) {
    ends[order[k]] = std::min(ends[order[k]], most);
    most = ends[order[k]] - gap;
  }
  return ends;
}

int height_of(const Figure& figure) {
  int height = kStepLabel;
  for (const Panel& panel : figure.panels)
    if (panel.range()) height += height_of(panel);
  return height;
}

void draw(Markup& out, const Figure& figure, std::optional<int> width) {
  std::vector<const Panel*> drawn;
  for (const Panel& panel : figure.panels)
    if (panel.range()) drawn.push_back(&panel);
  const Axis x = exact_axis({0, std::max(figure.last_step, 1.0)}, 4);
  const std::string title = figure.id + "-title", description = figure.id + "-desc";
  // The element is as wide as the curves; what is beside them lies in its margins, which the style sheet sets.
  out.open("svg", {{"class", "chart"},
                   {"role", "img"},
                   {"aria-labelledby", title + " " + description},
                   {"x", str(kChartLeft)},
                   {"width", width ? str(*width - kChartLeft - kChartRight) : "100%"},
                   {"height", str(height_of(figure))},
                   {"overflow", "visible"}});
  out.element("title", figure.title, {{"id", title}});
  out.element("desc", figure.description, {{"id", description}});
  int top = 0;
  for (const Panel* panel : drawn) {
    const Axis y = panel->axis(*panel->range(), panel->height / 45);
    out.element("text", panel->title_with(y), {{"class", "title"}, {"x", str(-kChartLeft)}, {"y", str(top + 16)}});
    out.open("svg",
             {{"y", str(top + kTitle)}, {"width", "100%"}, {"height", str(panel->height)}, {"overflow", "visible"}});
    draw_panel(out, *panel, x, y, panel == drawn.back());
    out.close("svg");
    top += height_of(*panel);
  }
  out.close("svg");
}

void draw_sample(Markup& out, size_t style) {
  out.open("svg", {{"class", "sample"}, {"width", "44"}, {"height", "12"}, {"aria-hidden", "true"}});
  out.empty("line", {{"class", style_class(style) + " curve"},
                     {"x1", "0"},
                     {"x2", "44"},
                     {"y1", "6"},
                     {"y2", "6"},
                     {"stroke-dasharray", kDashes[style % kDashes.size()]}});
  draw_mark(out, "22", 6, style);
  out.close("svg");
}

}  // namespace ct::report
