#include "cli/report/runs_section.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "cli/report/comparison.h"
#include "cli/report/curve.h"
#include "cli/report/tables.h"
#include "cli/report/texts.h"
#include "metrics/log_format.h"

namespace ct::report {
namespace {

/// The record of the end has the time since the run was last continued.
std::string time_of(const RunRecords& r) {
  const std::string time = time_or_dash(number_in(r.end, "seconds"));
  const int64_t from = count_in(r.start, "step");
  return time == "-" || from <= 0 ? time : str(time, " since step ", count_text(from));
}

constexpr size_t kMostKeyColumns = 6;  // differing keys in the table of runs
constexpr const char* kStar = "\u2605 ";

int64_t last_step_of(const RunRecords& r) {
  int64_t last = -1;
  if (!r.steps.empty()) last = r.steps.back().step;
  if (!r.evals.empty()) last = std::max(last, r.evals.back().step);
  return std::max(last, count_in(r.end, "step"));
}

void write_table_of_settings(Markup& out, const std::vector<Settings>& all, const std::optional<Best>& best) {
  Table table(out, "Settings, with the mean of the best accuracies",
              {{"settings"}, {"runs", Column::number}, {"accuracy", Column::number}, {"deviation", Column::number}});
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_best = best && best->index == i;
    table.row((is_best ? kStar : "") + all[i].text + (is_best ? " (best)" : ""), is_best ? "best" : "");
    const size_t evaluated = all[i].scores.accuracies.size();
    table.cell(str(evaluated, " of ", all[i].runs.size()));
    table.cell(evaluated == 0 ? "-" : percent(all[i].mean));
    table.cell(evaluated < 2 ? "-" : percent(all[i].deviation));
  }
}

std::string chosen_by(EvaluatedSplit split) {
  return split == EvaluatedSplit::val
             ? "The best row has the highest accuracy on the validation images (of equal ones the lowest loss)."
             : str("The best row has the highest accuracy on the ", split_word(split),
                   " images (of equal ones the lowest loss), which makes its figure optimistic: hold out images ",
                   "(data.validation) to choose by them.");
}

void write_table_of_runs(Markup& out, std::span<const RunParts> runs, bool is_sweep,
                         const std::vector<std::string>& varied, const std::optional<Best>& best) {
  std::vector<std::string> keys = differing_keys(runs, varied);
  const size_t all_keys = keys.size();
  keys.resize(std::min(keys.size(), kMostKeyColumns));
  std::vector<Heading> headings = {{"run"}, {"line"}};
  for (const char* name : {"best accuracy", "its loss", "test accuracy"}) headings.push_back({name, Column::number});
  for (const std::string& key : keys) headings.push_back({key});
  for (const char* name : {"steps", "time", "images/s"}) headings.push_back({name, Column::number});
  headings.push_back({"state"});
  {
    Table table(out, "Runs", headings);
    for (size_t i = 0; i < runs.size(); ++i) {
      const RunParts& run = runs[i];
      const EvalRecord* const figures = best_evaluation(run.records);
      const EvalRecord* const test = newest_evaluation(run.records, EvaluatedSplit::test);
      const bool is_best = best && best->index == i;
      const std::string name = is_sweep ? "" : ": " + run.name;  // which the keys' columns say
      table.row(str(is_best ? kStar : "", i + 1, name, is_best ? " (best)" : ""), is_best ? "best" : "");
      table.sample(i);
      table.cell(figures ? share_text(figures->accuracy) + " " + std::string(word_of(figures->split)) : "-");
      table.cell(figures ? figure_or_dash(figures->loss) : "-");
      table.cell(test ? share_text(test->accuracy) : "-");
      for (const std::string& key : keys) table.cell(dash_or(run.value(key)));
      table.cell(count_or_dash(last_step_of(run.records)));
      table.cell(time_of(run.records));
      table.cell(figure_or_dash(number_in(run.records.end, "samples_per_sec")));
      table.cell(brief_state_of(run));
    }
  }
  if (all_keys > keys.size())
    out.element("p", str("The runs differ in ", all_keys, " keys, of which the first ", keys.size(),
                         " are shown here: the configuration has all."));
}

/// What the runs took, where they have it recorded.
void write_table_of_costs(Markup& out, std::span<const RunParts> runs) {
  if (std::ranges::all_of(runs, [](const RunParts& run) { return run.records.end.is_null(); })) return;
  Table table(out, "Memory, traffic and weights",
              {{"run"},
               {"ranks", Column::number},
               {"ZeRO stage", Column::number},
               {"planned memory of a rank", Column::number},
               {"memory of a process", Column::number},
               {"sent by a rank in a step", Column::number},
               {"weights_sha256"}});
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunRecords& r = runs[i].records;
    const Tree &peak = child(r.end, "peak_bytes"), &traffic = child(r.end, "traffic");
    table.row_of(str(i + 1, ": ", runs[i].name),
                 {count_or_dash(count_in(r.start, "ranks")), count_or_dash(count_in(r.start, "zero_stage")),
                  bytes_or_dash(number_in(peak, "total")), bytes_or_dash(number_in(peak, "process")),
                  bytes_or_dash(number_in(traffic, "bytes")), dash_or(text_in(r.end, "weights_sha256").substr(0, 12))});
  }
}

/// ", top 5 99.10 %, loss 0.412, step 120"
std::string details_of(const EvalRecord& evaluation) {
  const std::string top5 = std::isnan(evaluation.top5) ? "" : ", top 5 " + percent(evaluation.top5);
  return str(top5, ", loss ", figure_or_dash(evaluation.loss), ", step ", count_text(evaluation.step));
}

}  // namespace

void write_results(Markup& out, const RunParts& run) {
  const RunRecords& r = run.records;
  std::vector<std::pair<std::string, std::string>> pairs = {{"state", state_of(run)}};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty() && value != "-") pairs.emplace_back(name, value);
  };
  add("model", text_in(r.start, "model"));
  add("data set", text_in(r.start, "dataset"));
  add("training images", count_or_dash(count_in(r.start, "train_images")));
  add("parameters", count_or_dash(count_in(r.start, "parameters")));
  add("optimizer steps", count_or_dash(last_step_of(r)));
  if (!r.epochs.empty()) add("epochs", count_or_dash(r.epochs.back().epoch));
  if (const EvalRecord* const best = best_evaluation(r)) {
    add("best.bin", str(share_text(best->accuracy), " of the ", split_word(best->split), " images", details_of(*best)));
    if (const EvalRecord* const test = newest_evaluation(r, EvaluatedSplit::test); test && test != best)
      add("test", share_text(test->accuracy) + details_of(*test));
  }
  if (!r.epochs.empty()) add("training loss of the last epoch", figure_or_dash(r.epochs.back().loss));
  add("time", time_of(r));
  if (const double rate = number_in(r.end, "samples_per_sec"); rate >= 0)
    add("throughput", number_text(rate) + " images/s");
  if (const int64_t skipped = count_in(r.end, "skipped"); skipped > 0) add("skipped steps", count_text(skipped));
  if (const int64_t replaced = count_in(r.end, "replaced_samples"); replaced > 0)
    add("replaced samples", count_text(replaced));
  add("weights_sha256", text_in(r.end, "weights_sha256"));
  if (const std::string average = text_in(r.end, "ema_sha256"); !average.empty())
    add("ema_sha256", average + ", of the moving average, which was evaluated");
  write_pairs(out, "Results and state", pairs);
}

void write_comparison(Markup& out, std::span<const RunParts> runs, const std::optional<SweepParts>& sweep) {
  const Comparison all = compare(runs, sweep);
  const bool has_repeats = all.settings.size() < runs.size();  // else the rows of both tables are the same
  if (!all.weights.empty())
    out.element("p", "All runs ended with the same weights, " + all.weights + ".");
  else if (has_repeats && all.settings.size() > 1)
    write_table_of_settings(out, all.settings, all.best);
  write_table_of_runs(out, runs, sweep.has_value(), all.varied, has_repeats ? std::nullopt : all.best);
  if (all.best) out.element("p", chosen_by(all.best->by));
  if (!all.why_none.empty()) out.element("p", str("No row is marked as the best, because ", all.why_none, "."));
  if (!sweep) write_table_of_costs(out, runs);
}

}  // namespace ct::report
