#include "cli/report/evaluation_section.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "cli/report/curve.h"
#include "cli/report/tables.h"
#include "cli/report/texts.h"
#include "metrics/log_format.h"

namespace ct::report {
namespace {

constexpr size_t kMostRows = 40, kLargestMatrix = 30, kMostMistakes = 15, kMostName = 60;  // bytes, outside of tables

std::string base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const auto* const from = reinterpret_cast<const unsigned char*>(bytes.data());
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), from, static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

class EvaluationPart {
 public:
  EvaluationPart(Markup& out, const FinalEvaluation& e, size_t number) : out_(out), e_(e), number_(number) {}

  void write() {
    const std::string split = e_.split == "val" ? "validation" : e_.split == "test" ? "test" : "evaluated";
    out_.element("p", str(count_text(e_.images), " ", split, " images, weights of step ", count_text(e_.step),
                          ": accuracy ", share_text(e_.accuracy), ", loss ", number_text(e_.loss),
                          ", expected calibration error ", share_text(e_.ece), "."));
    out_.open("div", {{"class", "beside"}});
    if (!e_.classes.empty()) write_classes();
    if (!e_.confusion.empty()) write_confusion();
    if (!e_.bins.empty()) write_calibration();
    out_.close("div");
    if (e_.right.empty() && e_.wrong.empty()) return;
    if (e_.sheet.empty()) {
      out_.open("div");
    } else {
      const double tall = 64.0 * static_cast<double>(e_.height) / static_cast<double>(e_.width);
      out_.open("div", {{"style", str("--sheet: url(data:image/png;base64,", base64(e_.sheet),
                                      "); --tall: ", fmt::format("{:.1f}px", tall))}});
    }
    write_pictures("Most confident right answers", e_.right, 0);
    write_pictures("Most confident wrong answers", e_.wrong, e_.right.size());
    out_.close("div");
  }

 private:
  const std::string& name(size_t index) const { return e_.classes[index].name; }

  void write_classes() {
    std::vector<size_t> order(e_.classes.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::string caption = "Classes";
    if (order.size() > kMostRows) {
      std::ranges::stable_sort(order, {},
                               [&](size_t c) { return std::isnan(e_.classes[c].f1) ? 0 : e_.classes[c].f1; });
      order.resize(kMostRows);
      caption = str("The ", kMostRows, " classes with the lowest F1, of ", e_.classes.size());
    }
    Table table(out_, caption,
                {{"class"},
                 {"images", Column::number},
                 {"recall", Column::number},
                 {"precision", Column::number},
                 {"F1", Column::number},
                 {"answered", Column::number}});
    for (const size_t c : order) {
      const FinalEvaluation::Class& one = e_.classes[c];
      table.row_of(name(c), {count_text(one.images), share_text(one.recall), share_text(one.precision),
                             share_text(one.f1), count_text(one.predicted)});
    }
  }

  void write_confusion() {
    e_.classes.size() <= kLargestMatrix ? write_matrix() : write_map();
    std::vector<FinalEvaluation::Pair> mistakes;
    for (const FinalEvaluation::Pair& pair : e_.confusion)
      if (pair.label != pair.predicted) mistakes.push_back(pair);
    if (mistakes.empty()) return;
    std::ranges::stable_sort(mistakes, std::greater(), &FinalEvaluation::Pair::images);
    mistakes.resize(std::min(mistakes.size(), kMostMistakes));
    Table table(out_, "The commonest confusions",
                {{"true class"}, {"answer"}, {"images", Column::number}, {"of the class", Column::number}});
    for (const FinalEvaluation::Pair& pair : mistakes)
      table.row_of(name(pair.label), {name(pair.predicted), count_text(pair.images), share_of_class(pair)});
  }

  std::string share_of_class(const FinalEvaluation::Pair& pair) const {
    const int64_t images = e_.classes[pair.label].images;
    return images >= pair.images ? percent(static_cast<double>(pair.images) / static_cast<double>(images), 1) : "-";
  }

  /// The matrix of many classes: a square for each pair that occurs, the darker the more of the class's images it has.
  void write_map() {
    constexpr size_t kShades = 5;
    std::array<std::string, kShades> shades;
    for (const FinalEvaluation::Pair& pair : e_.confusion) {
      const auto of = static_cast<double>(std::max<int64_t>(e_.classes[pair.label].images, 1));
      const double share = std::min(static_cast<double>(pair.images) / of, 1.0);
      const auto shade = std::min(static_cast<size_t>(share * kShades), kShades - 1);
      shades[shade] += fmt::format("M{} {}h1v1h-1z", pair.predicted, pair.label);
    }
    const std::string n = str(e_.classes.size());
    out_.open("figure", {{"class", "wide"}});
    out_.open("svg", {{"class", "map"},
                      {"viewBox", str("0 0 ", n, " ", n)},
                      {"role", "img"},
                      {"aria-label", str("Confusion matrix of ", n, " classes")}});
    for (size_t i = 0; i < kShades; ++i)
      out_.empty("path",
                 {{"d", shades[i]}, {"fill-opacity", fmt::format("{:.2f}", (static_cast<double>(i) + 1) / kShades)}});
    out_.close("svg");
    out_.element("figcaption",
                 str("Confusion matrix: a row for each of the ", n,
                     " true classes, a column for each answer, in the order of the classes; the darker, the larger the "
                     "share of the class. The numbers: cifar-train eval --confusion FILE.csv"));
    out_.close("figure");
  }

  void write_matrix() {
    const size_t n = e_.classes.size();
    std::vector<int64_t> counts(n * n);
    for (const FinalEvaluation::Pair& pair : e_.confusion) counts[pair.label * n + pair.predicted] = pair.images;
    int64_t worst = 1;
    for (const FinalEvaluation::Pair& pair : e_.confusion)
      if (pair.label != pair.predicted) worst = std::max(worst, pair.images);
    const char* const caption = "Confusion matrix: images by true class (rows) and answer (columns)";
    out_.open("div", {{"class", "scroll"}, {"role", "group"}, {"aria-label", caption}, {"tabindex", "0"}});
    out_.open("table", {{"class", "matrix"}});
    out_.element("caption", caption);
    out_.open("thead");
    out_.open("tr");
    out_.element("th", "true class", {{"scope", "col"}});
    for (size_t c = 0; c < n; ++c) {
      out_.open("th", {{"scope", "col"}});
      out_.shortened_element("span", name(c), kMostName);
      out_.close("th");
    }
    out_.close("tr");
    out_.close("thead");
    out_.open("tbody");
    for (size_t label = 0; label < n; ++label) {
      out_.open("tr");
      out_.shortened_element("th", name(label), kMostName, {{"scope", "row"}});
      for (size_t c = 0; c < n; ++c) {
        const int64_t images = counts[label * n + c],
                      of = label == c ? std::max<int64_t>(e_.classes[c].images, 1) : worst;
        const double share = std::min(static_cast<double>(images) / static_cast<double>(of), 1.0);
        out_.element("td", count_text(images),
                     {{"class", label == c    ? "hit"
                                : images == 0 ? "none"
                                              : "miss"},
                      {"style", fmt::format("--share: {:.2f}", share)}});
      }
      out_.close("tr");
    }
    out_.close("tbody");
    out_.close("table");
    out_.close("div");
  }

  void write_calibration() {
    out_.open("figure");
    draw_reliability(out_, e_.bins, number_);
    out_.element(
        "figcaption",
        "Reliability: a bar is the share of right answers among those of about one probability. Bars below the "
        "dashed line: the network is too sure. Beneath: how many answers there are; of less than ten a bar is faint.");
    out_.close("figure");
  }

  void write_pictures(std::string_view title, const std::vector<FinalEvaluation::Picture>& pictures, size_t first) {
    if (pictures.empty()) return;
    out_.element("h3", title);
    const int64_t columns = std::max<int64_t>(e_.columns, 1);
    out_.open("ul", {{"class", "pictures"}});
    for (size_t i = 0; i < pictures.size(); ++i) {
      const FinalEvaluation::Picture& picture = pictures[i];
      const auto place = static_cast<int64_t>(first + i);
      const std::string what = str("image ", count_text(picture.image), ", ", shortened(name(picture.label)));
      out_.open("li");
      if (!e_.sheet.empty()) {
        out_.open("span", {{"class", "thumb"},
                           {"role", "img"},
                           {"aria-label", what},
                           {"style", str("--x: ", place % columns, "; --y: ", place / columns)}});
        out_.close("span");
      }
      out_.open("div");
      out_.shortened_element("strong", name(picture.label), kMostName);
      for (const FinalEvaluation::Answer& answer : picture.answers) {
        out_.open("div");
        if (answer.answer == picture.label) out_.text("\u2713 ");
        out_.shortened_element("bdi", name(answer.answer), kMostName);  // it may be written from right to left
        out_.text(" " + percent(answer.probability, 1));
        out_.close("div");
      }
      out_.close("div");
      out_.close("li");
    }
    out_.close("ul");
  }

  Markup& out_;
  const FinalEvaluation& e_;
  const size_t number_;
};

/// Of a run that has not ended the records have the accuracy of each class.
void write_recalls(Markup& out, const RunParts& run) {
  const std::vector<double>& per_class = run.records.per_class;
  const size_t shown = std::min(per_class.size(), kMostRows);
  Table table(out,
              shown < per_class.size() ? str("Accuracy of the first ", shown, " classes, newest evaluation")
                                       : "Accuracy of each class, newest evaluation",
              {{"class"}, {"recall", Column::number}});
  for (size_t c = 0; c < shown; ++c)
    table.row_of(run.classes.empty() ? str("class ", c) : run.classes[c], {share_text(per_class[c])});
}

}  // namespace

const char* const kEvaluationStyle =
    R"(.matrix th, .matrix td { padding: 3px 5px } .matrix th { min-width: 0 } .matrix td { text-align: right; min-width: 3.2ch; font-size: 0.85rem;
  background: color-mix(in srgb, var(--shade) calc(var(--share) * 45%), transparent); print-color-adjust: exact }
.matrix thead th { vertical-align: bottom } .matrix thead span { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 12em }
.hit { --shade: var(--c0); font-weight: 600 } .miss { --shade: var(--c1) } .none { --shade: transparent; color: var(--quiet) }
.beside { display: flex; flex-wrap: wrap; gap: 0 56px; align-items: flex-start } .beside > * { flex: none; max-width: 100% }
.beside > figure { max-width: min(100%, 340px); margin-top: 16px }
.beside > .wide { max-width: min(100%, 560px) } .map { display: block; width: 100%; height: auto; fill: var(--c0);
  outline: 1px solid var(--grid); shape-rendering: crispEdges; print-color-adjust: exact }
.reliability { display: block; font: 12px/1 system-ui, sans-serif; max-width: 100%; height: auto }
.reliability text { fill: var(--quiet) } .reliability .bar { fill: var(--c0); opacity: 0.8 } .reliability .few { opacity: 0.25 } .reliability .count { fill: var(--quiet) }
.ideal { stroke: var(--ink); stroke-dasharray: 5 4; fill: none }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 210px), 1fr)); gap: 12px 16px; list-style: none; padding: 0; font-size: 0.85rem; line-height: 1.35 }
.pictures li { display: flex; gap: 10px; align-items: flex-start; break-inside: avoid } .pictures li > div { min-width: 0 }
.thumb { flex: none; width: 64px; height: var(--tall); background-image: var(--sheet); background-size: 512px auto; image-rendering: pixelated;
  background-position: calc(var(--x) * -64px) calc(var(--y) * -1 * var(--tall)); print-color-adjust: exact }
)";

bool has_evaluation(const RunParts& run) { return run.evaluation || !run.records.per_class.empty(); }

void write_evaluation_of(Markup& out, const RunParts& run, size_t number) {
  if (run.evaluation)
    EvaluationPart(out, *run.evaluation, number).write();
  else
    write_recalls(out, run);
}

void draw_reliability(Markup& out, const std::vector<FinalEvaluation::Bin>& bins, size_t number) {
  constexpr double kLeft = 44, kTop = 10, kSide = 260, kGap = 26, kCounts = 50;
  constexpr int64_t kFew = 10;  // answers, of which a share says little
  const double bottom = kTop + kSide, base = bottom + kGap + kCounts, width = kSide / static_cast<double>(bins.size());
  const auto px = [](double value) { return fmt::format("{:.1f}", value); };
  int64_t most = 1;
  std::string words;
  for (const FinalEvaluation::Bin& bin : bins) {
    most = std::max(most, bin.images);
    if (bin.images > 0)
      words += str("probability ", share_text(bin.probability), ": ", share_text(bin.accuracy), " right of ",
                   count_text(bin.images), ". ");
  }
  const std::string title = str("reliability-", number, "-title"), description = str("reliability-", number, "-desc");
  out.open("svg", {{"class", "reliability"},
                   {"role", "img"},
                   {"aria-labelledby", title + " " + description},
                   {"width", "340"},
                   {"height", px(base + 34)},
                   {"viewBox", str("0 0 340 ", px(base + 34))}});
  out.element("title", "Reliability diagram: share of right answers by probability", {{"id", title}});
  out.element("desc", words, {{"id", description}});
  for (const double tick : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const std::string y = px(bottom - tick * kSide), x = px(kLeft + tick * kSide);
    out.empty("line", {{"class", "grid"}, {"x1", px(kLeft)}, {"x2", px(kLeft + kSide)}, {"y1", y}, {"y2", y}});
    out.element("text", fmt::format("{:g} %", 100 * tick),
                {{"x", px(kLeft - 6)}, {"y", px(bottom - tick * kSide + 4)}, {"style", "text-anchor: end"}});
    out.element("text", fmt::format("{:g} %", 100 * tick),
                {{"x", x}, {"y", px(base + 16)}, {"style", "text-anchor: middle"}});
  }
  for (size_t i = 0; i < bins.size(); ++i) {
    if (bins[i].images == 0) continue;
    const double x = kLeft + static_cast<double>(i) * width, height = bins[i].accuracy * kSide,
                 count = kCounts * static_cast<double>(bins[i].images) / static_cast<double>(most);
    out.empty("rect", {{"class", bins[i].images < kFew ? "bar few" : "bar"},
                       {"x", px(x + 1)},
                       {"y", px(bottom - height)},
                       {"width", px(width - 2)},
                       {"height", px(height)}});
    out.empty("rect", {{"class", "count"},
                       {"x", px(x + 1)},
                       {"y", px(base - count)},
                       {"width", px(width - 2)},
                       {"height", px(std::max(count, 1.0))}});
  }
  out.empty("path",
            {{"class", "ideal"}, {"d", str("M", px(kLeft), " ", px(bottom), "L", px(kLeft + kSide), " ", px(kTop))}});
  out.element("text", "probability of the answer",
              {{"x", px(kLeft + kSide / 2)}, {"y", px(base + 31)}, {"style", "text-anchor: middle"}});
  out.close("svg");
}

}  // namespace ct::report
