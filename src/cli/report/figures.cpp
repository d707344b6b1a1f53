#include "cli/report/figures.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "cli/report/texts.h"
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
Panel panel_of_each(std::span<const RunParts> runs, Panel panel, bool marks, const PointsOf& points) {
  for (size_t i = 0; i < runs.size(); ++i)
    panel.curves.push_back({.name = runs.size() > 1 ? std::to_string(i + 1) : "",
                            .points = points(runs[i].records),
                            .style = i,
                            .marks = marks});
  constexpr int kName = 13;  // px
  panel.height = std::max(panel.height, static_cast<int>(runs.size()) * kName);
  return panel;
}

constexpr size_t kFewSteps = 30;

/// The number of each step, faint, and its smoothed curve; of few steps only their numbers.
template <class Number>
std::vector<Curve> curves_of_steps(const RunRecords& r, Number StepRecord::*number, const std::string& name) {
  std::vector<Point> points = points_of(r.steps, number);
  if (points.size() < kFewSteps) return {{.name = name, .points = std::move(points)}};
  std::vector<Point> smooth = smoothed(points);
  return {{.name = "", .points = std::move(points), .faint = true}, {.name = name, .points = std::move(smooth)}};
}

/// Images by time: the mean of rates would count the fast moments more than they take.
std::vector<Point> smoothed_rate(const RunRecords& r) {
  std::vector<Point> points = points_of(r.steps, &StepRecord::samples_per_sec);
  for (Point& point : points) point.y = point.y > 0 ? 1 / point.y : kNone;
  points = smoothed(points);
  for (Point& point : points) point.y = drawable(1 / point.y);
  return points;
}

std::vector<Panel> panels_of_one(const RunRecords& r) {
  Panel loss{.title = "Loss (cross entropy)", .may_be_logarithmic = true, .height = 240};
  loss.curves = curves_of_steps(r, &StepRecord::loss, "train");
  if (r.steps.empty())
    loss.curves = {{.name = "train", .points = points_of(r.epochs, &EpochRecord::loss), .marks = true}};
  Panel accuracy{.title = "Accuracy in evaluations (%)", .unit = Unit::percent};
  for (size_t i = 0; i < kSplits.size(); ++i) {
    const std::string name(word_of(kSplits[i]));
    loss.curves.push_back(
        {.name = name, .points = points_of(r, kSplits[i], &EvalRecord::loss), .style = i + 1, .marks = true});
    accuracy.curves.push_back(
        {.name = name, .points = points_of(r, kSplits[i], &EvalRecord::accuracy), .style = i + 1, .marks = true});
  }
  Panel rate{.title = "Learning rate", .height = 90};
  rate.curves.push_back({.name = "", .points = points_of(r.steps, &StepRecord::lr)});
  return {loss, accuracy, rate};
}

std::vector<Panel> panels_of_several(std::span<const RunParts> runs) {
  const auto evaluated = [](double EvalRecord::*number) {
    return [number](const RunRecords& r) { return points_of(r, judged_split(r), number); };
  };
  return {panel_of_each(runs, {.title = "Training loss (cross entropy), smoothed", .may_be_logarithmic = true}, false,
                        [](const RunRecords& r) { return smoothed(points_of(r.steps, &StepRecord::loss)); }),
          panel_of_each(runs, {.title = "Loss in evaluations", .may_be_logarithmic = true}, true,
                        evaluated(&EvalRecord::loss)),
          panel_of_each(runs, {.title = "Accuracy in evaluations (%)", .unit = Unit::percent}, true,
                        evaluated(&EvalRecord::accuracy)),
          panel_of_each(runs, {.title = "Learning rate", .height = 100}, false,
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
  if (const Range range = *range_of(finite); text(range.low) == text(range.high))
    return str(what, " stays at ", text(range.low), " from step ", at(finite.front().x), " to step ",
               at(finite.back().x), ". ");
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
  Figure figure{.id = "pace",
                .title = "Gradient norm, throughput and waiting by optimizer step",
                .description = "A curve for each run.",
                .last_step = last_step(runs)};
  const char* const how = runs.size() == 1 && runs[0].records.steps.size() < kFewSteps ? "" : ", smoothed";
  Panel norm{.title = str("Gradient norm before clipping", how), .may_be_logarithmic = true},
      rate{.title = "Throughput (images/s), smoothed"},
      waiting{.title = str("Time spent waiting for data (%)", how), .unit = Unit::percent, .height = 100};
  const auto smooth = [](double StepRecord::*number) {
    return [number](const RunRecords& r) { return smoothed(points_of(r.steps, number)); };
  };
  rate = panel_of_each(runs, rate, false, smoothed_rate);
  if (runs.size() > 1) {
    norm = panel_of_each(runs, norm, false, smooth(&StepRecord::grad_norm));
    waiting = panel_of_each(runs, waiting, false, smooth(&StepRecord::wait_fraction));
  } else {
    const RunRecords& r = runs[0].records;
    norm.curves = curves_of_steps(r, &StepRecord::grad_norm, "");
    waiting.curves = curves_of_steps(r, &StepRecord::wait_fraction, "");
    const auto in_words = [&](const char* what, double StepRecord::*number, Unit unit) {
      return from_to(what, points_of(r.steps, number), unit);
    };
    figure.description = in_words("The gradient norm", &StepRecord::grad_norm, Unit::number) +
                         in_words("Throughput in images a second", &StepRecord::samples_per_sec, Unit::number) +
                         in_words("The share of time spent waiting", &StepRecord::wait_fraction, Unit::percent);
  }
  figure.panels = {norm, rate, waiting};
  return figure;
}

bool has_curves(const Figure& figure) {
  return std::ranges::any_of(figure.panels, [](const Panel& panel) { return panel.range().has_value(); });
}

std::string progress_in_words(const RunRecords& r) {
  std::string text = from_to("The training loss", points_of(r.steps, &StepRecord::loss), Unit::number);
  for (const EvaluatedSplit split : kSplits) {
    const std::string word = split_word(split);
    text += from_to("The " + word + " loss", points_of(r, split, &EvalRecord::loss), Unit::number);
    text += from_to("The " + word + " accuracy", points_of(r, split, &EvalRecord::accuracy), Unit::percent);
  }
  return text + from_to("The learning rate", points_of(r.steps, &StepRecord::lr), Unit::number);
}

}  // namespace ct::report
