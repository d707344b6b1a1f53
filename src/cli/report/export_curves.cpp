#include "cli/report/export_curves.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/csv_table.h"
#include "cli/report/figures.h"
#include "cli/report/style.h"

namespace ct::report {
namespace {

/// A number in all its digits, after a comma.
void add(std::string& table, double number) {
  table += ',';
  if (!std::isnan(number)) fmt::format_to(std::back_inserter(table), "{}", number);
}

}  // namespace

std::string curve_table(std::span<const RunParts> runs) {
  std::string table(kCurveHeader);
  table += '\n';
  for (const RunParts& run : runs) {
    const std::string name = csv_field(printable(run.name));
    for (const StepRecord& r : run.records.steps) {
      table += fmt::format("{},step,{},{},,", name, r.step, r.epoch);
      add(table, r.loss);
      table += ",,";
      for (const double number : {r.lr, r.grad_norm, r.samples_per_sec, r.wait_fraction}) add(table, number);
      table += '\n';
    }
    for (const EpochRecord& r : run.records.epochs) {
      table += fmt::format("{},epoch,{},{},,", name, r.step, r.epoch);
      add(table, r.loss);
      table += ",,,,,,\n";
    }
    for (const EvalRecord& r : run.records.evals) {
      table += fmt::format("{},eval,{},{},{},{}", name, r.step, r.epoch, word_of(r.split), r.images);
      for (const double number : {r.loss, r.accuracy, r.top5}) add(table, number);
      table += ",,,,\n";
    }
  }
  return table;
}

std::string chart_file(std::span<const RunParts> runs) {
  constexpr int kWidth = 960, kBorder = 24, kRow = 20;
  const Figure figure = progress_figure(runs);
  const int legend = runs.size() > 1 ? kRow * static_cast<int>(runs.size()) : 0,
            height = height_of(figure) + legend + 2 * kBorder;
  Markup out;
  out.verbatim(kChartBeginning);
  out.open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                   {"width", str(kWidth)},
                   {"height", str(height)},
                   {"viewBox", str("0 0 ", kWidth, " ", height)},
                   {"class", "chart"}});
  out.open("style");
  out.verbatim(chart_file_style());
  out.close("style");
  out.empty("rect", {{"width", "100%"}, {"height", "100%"}, {"class", "ground"}});
  out.open("g", {{"transform", str("translate(", kBorder, " ", kBorder, ")")}});
  draw(out, figure, kWidth - 2 * kBorder);
  out.close("g");
  for (size_t i = 0; legend > 0 && i < runs.size(); ++i) {
    const int top = height - legend - kBorder + static_cast<int>(i) * kRow;
    out.open("g", {{"transform", str("translate(", kBorder, " ", top, ")")}});
    draw_sample(out, i);
    out.element("text", str(i + 1, ": ", shortened(runs[i].name, 120)), {{"x", "54"}, {"y", "10"}});
    out.close("g");
  }
  out.close("svg");
  return out.take();
}

}  // namespace ct::report
