#include "cli/report/figures.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "metrics/log_format.h"

namespace ct::report {
namespace {

template <class Record, class Number>
std::vector<Point> points_of(const std::vector<Record>& records, Number Record::*number) {
  std::vector<Point> points;
  points.reserve(records.size());
  for (const Record& record : records) points.push_back({static_cast<double>(record.step), record.*number});
  return points;
}

std::vector<Point> points_of(const RunRecords& records, EvaluatedSplit split, double EvalRecord::*number) {
  std::vector<Point> points;
  for (const EvalRecord& record : records.evals)
    if (record.split == split) points.push_back({static_cast<double>(record.step), record.*number});
  return points;
}

constexpr std::array kSplits = {EvaluatedSplit::val, EvaluatedSplit::test, EvaluatedSplit::train};

/// The split that a run's evaluations during training were of.
EvaluatedSplit judged_split(const RunRecords& records) {
  return newest_evaluation(records, EvaluatedSplit::val) ? EvaluatedSplit::val : EvaluatedSplit::test;
}

double last_step(std::span<const RunParts> runs) {
  int64_t last = 1;
  for (const RunParts& run : runs) {
    const RunRecords& r = run.records;
    if (!r.steps.empty()) last = std::max(last, r.steps.back().step);
    if (!r.epochs.empty()) last = std::max(last, r.epochs.back().step);
    if (!r.evals.empty()) last = std::max(last, r.evals.back().step);
  }
  return static_cast<double>(last);
}

/// A panel with a curve of each run.
template <class PointsOf>
Panel panel_of_each(std::span<const RunParts> runs, Panel panel, const PointsOf& points) {
  for (size_t i = 0; i < runs.size(); ++i)
    panel.curves.push_back({.name = runs.size() > 1 ? std::to_string(i + 1) : "",
                            .points = points(runs[i].records),
                            .style = i,
                            .marks = true});
  if (runs.size() > 8) panel.height = std::max(panel.height, static_cast<int>(runs.size()) * 13);
  return panel;
}

std::vector<Panel> panels_of_one(const RunRecords& r) {
  Panel loss{.title = "Loss (cross entropy)", .may_be_logarithmic = true, .height = 240};
  loss.curves.push_back({.name = "step", .points = points_of(r.steps, &StepRecord::loss), .style = 0, .faint = true});
  loss.curves.push_back(
      {.name = "epoch", .points = points_of(r.epochs, &EpochRecord::loss), .style = 0, .marks = true});
  Panel accuracy{.title = "Accuracy in evaluations (%)", .unit = Unit::percent};
  for (size_t i = 0; i < kSplits.size(); ++i) {
    const std::string name(word_of(kSplits[i]));
    loss.curves.push_back(
        {.name = name, .points = points_of(r, kSplits[i], &EvalRecord::loss), .style = i + 1, .marks = true});
    accuracy.curves.push_back(
        {.name = name, .points = points_of(r, kSplits[i], &EvalRecord::accuracy), .style = i + 1, .marks = true});
  }
  Panel rate{.title = "Learning rate", .height = 90};
  rate.curves.push_back({.name = "", .points = points_of(r.steps, &StepRecord::lr), .style = 5});
  return {loss, accuracy, rate};
}

std::vector<Panel> panels_of_several(std::span<const RunParts> runs) {
  return {panel_of_each(runs, {.title = "Training loss (cross entropy), smoothed", .may_be_logarithmic = true},
                        [](const RunRecords& r) { return smoothed(points_of(r.steps, &StepRecord::loss)); }),
          panel_of_each(runs, {.title = "Loss in evaluations", .may_be_logarithmic = true},
                        [](const RunRecords& r) { return points_of(r, judged_split(r), &EvalRecord::loss); }),
          panel_of_each(runs, {.title = "Accuracy in evaluations (%)", .unit = Unit::percent},
                        [](const RunRecords& r) { return points_of(r, judged_split(r), &EvalRecord::accuracy); }),
          panel_of_each(runs, {.title = "Learning rate", .height = 100},
                        [](const RunRecords& r) { return points_of(r.steps, &StepRecord::lr); })};
}

std::string from_to(std::string_view what, const std::vector<Point>& points, Unit unit) {
  std::vector<Point> finite;
  for (const Point& point : points)
    if (!std::isnan(point.y)) finite.push_back(point);
  if (finite.empty()) return "";
  const auto text = [&](double y) { return unit == Unit::percent ? percent(y) : number_text(y); };
  const auto at = [](double x) { return count_text(static_cast<int64_t>(x)); };
  if (finite.size() == 1) return str(what, " is ", text(finite[0].y), " at step ", at(finite[0].x), ". ");
  return str(what, " goes from ", text(finite.front().y), " at step ", at(finite.front().x), " to ",
             text(finite.back().y), " at step ", at(finite.back().x), ". ");
}

}  // namespace

Figure progress_figure(std::span<const RunParts> runs) {
  Figure figure{.id = "progress",
                .title = "Loss, accuracy and learning rate by optimizer step",
                .description = runs.size() == 1 ? progress_in_words(runs[0].records)
                                                : "A curve for each run; the table of runs has their figures.",
                .last_step = last_step(runs)};
  figure.panels = runs.size() == 1 ? panels_of_one(runs[0].records) : panels_of_several(runs);
  return figure;
}

Figure pace_figure(std::span<const RunParts> runs) {
  const auto of_steps = [](double StepRecord::*number) {
    return [number](const RunRecords& r) { return points_of(r.steps, number); };
  };
  Figure figure{.id = "pace",
                .title = "Gradient norm, throughput and waiting by optimizer step",
                .description = "",
                .last_step = last_step(runs)};
  figure.panels = {
      panel_of_each(runs, {.title = "Gradient norm, before clipping", .may_be_logarithmic = true},
                    of_steps(&StepRecord::grad_norm)),
      panel_of_each(runs, {.title = "Throughput (images/s)"}, of_steps(&StepRecord::samples_per_sec)),
      panel_of_each(runs, {.title = "Time spent waiting for data (%)", .unit = Unit::percent, .height = 100},
                    of_steps(&StepRecord::wait_fraction))};
  for (Panel& panel : figure.panels)
    for (Curve& curve : panel.curves) curve.marks = false;
  if (runs.size() == 1)
    figure.description = from_to("The gradient norm", figure.panels[0].curves[0].points, Unit::number) +
                         from_to("Throughput in images a second", figure.panels[1].curves[0].points, Unit::number) +
                         from_to("The share of time spent waiting", figure.panels[2].curves[0].points, Unit::percent);
  else
    figure.description = "A curve for each run.";
  return figure;
}

bool has_curves(const Figure& figure) {
  return std::ranges::any_of(figure.panels, [](const Panel& panel) { return panel.range().has_value(); });
}

std::string progress_in_words(const RunRecords& r) {
  std::string text = from_to("The training loss", smoothed(points_of(r.steps, &StepRecord::loss)), Unit::number);
  for (const EvaluatedSplit split : kSplits) {
    const std::string word = split == EvaluatedSplit::val ? "validation" : std::string(word_of(split));
    text += from_to("The " + word + " loss", points_of(r, split, &EvalRecord::loss), Unit::number);
    text += from_to("The " + word + " accuracy", points_of(r, split, &EvalRecord::accuracy), Unit::percent);
  }
  return text + from_to("The learning rate", points_of(r.steps, &StepRecord::lr), Unit::number);
}

}  // namespace ct::report
