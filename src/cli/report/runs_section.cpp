#include "cli/report/runs_section.h"

#include <algorithm>

#include "base/error.h"
#include "cli/report/comparison.h"
#include "cli/report/curve.h"
#include "cli/report/tables.h"
#include "cli/report/texts.h"
#include "metrics/console.h"
#include "metrics/log_format.h"

namespace ct::report {
namespace {

constexpr size_t kMostKeyColumns = 6;  // differing keys in the table of runs
constexpr const char* kStar = "\u2605 ";

int64_t last_step_of(const RunRecords& r) {
  int64_t last = -1;
  if (!r.steps.empty()) last = r.steps.back().step;
  if (!r.evals.empty()) last = std::max(last, r.evals.back().step);
  return std::max(last, count_in(r.end, "step"));
}

/// Which rows a table marks, and by which keys it tells them apart.
struct Rows {
  std::vector<std::string> varied;  // by the sweep, whether or not the runs differ by them yet
  bool marks_best = true;
};

void write_table_of_settings(Markup& out, std::span<const RunParts> runs, const Rows& rows) {
  const std::vector<Settings> all = settings_of(runs, rows.varied);
  if (all.size() < 2 || all.size() == runs.size()) return;  // the table of runs says the same
  const std::optional<Best> best = rows.marks_best ? best_settings(runs, all) : std::nullopt;
  Table table(out, "Settings, with the mean of the best accuracies",
              {{"settings"}, {"runs", Column::number}, {"accuracy", Column::number}, {"deviation", Column::number}});
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_best = best && best->index == i;
    table.row((is_best ? kStar : "") + all[i].text + (is_best ? " (best)" : ""), is_best ? "best" : "");
    table.cell(str(all[i].scores.size(), " of ", all[i].runs.size()));
    table.cell(all[i].scores.empty() ? "-" : percent(all[i].mean));
    table.cell(all[i].scores.size() < 2 ? "-" : percent(all[i].deviation));
  }
}

std::string chosen_by(EvaluatedSplit split) {
  return split == EvaluatedSplit::val
             ? "The best row has the highest accuracy on the validation images."
             : str("The best row has the highest accuracy on the ", split_word(split),
                   " images, which makes its figure optimistic: hold out images (data.validation) to choose by them.");
}

void write_table_of_runs(Markup& out, std::span<const RunParts> runs, bool is_sweep, const Rows& rows) {
  std::vector<std::string> keys = differing_keys(runs, rows.varied);
  const size_t all_keys = keys.size();
  keys.resize(std::min(keys.size(), kMostKeyColumns));
  std::vector<Heading> headings = {{"run"}, {"line"}};
  for (const char* name : {"best accuracy", "its loss", "test accuracy"}) headings.push_back({name, Column::number});
  for (const std::string& key : keys) headings.push_back({key});
  for (const char* name : {"steps", "seconds", "images/s"}) headings.push_back({name, Column::number});
  headings.push_back({"state"});
  const std::optional<Best> best = rows.marks_best ? best_run(runs) : std::nullopt;
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
      table.cell(figure_or_dash(number_in(run.records.end, "seconds")));
      table.cell(figure_or_dash(number_in(run.records.end, "samples_per_sec")));
      table.cell(brief_state_of(run));
    }
  }
  if (best) out.element("p", chosen_by(best->by));
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
    add("best.bin", str(share_text(best->accuracy), " of the ", split_word(best->split), " images, loss ",
                        figure_or_dash(best->loss), ", step ", count_text(best->step)));
    if (const EvalRecord* const test = newest_evaluation(r, EvaluatedSplit::test); test && test != best)
      add("test",
          str(share_text(test->accuracy), ", loss ", figure_or_dash(test->loss), ", step ", count_text(test->step)));
  }
  if (!r.epochs.empty()) add("training loss of the last epoch", figure_or_dash(r.epochs.back().loss));
  if (const double seconds = number_in(r.end, "seconds"); seconds >= 0) add("time", duration(std::min(seconds, 1e12)));
  if (const double rate = number_in(r.end, "samples_per_sec"); rate >= 0)
    add("throughput", number_text(rate) + " images/s");
  if (const int64_t skipped = count_in(r.end, "skipped"); skipped > 0) add("skipped steps", count_text(skipped));
  if (const int64_t replaced = count_in(r.end, "replaced_samples"); replaced > 0)
    add("replaced samples", count_text(replaced));
  add("weights_sha256", text_in(r.end, "weights_sha256"));
  write_pairs(out, "Results and state", pairs);
}

void write_comparison(Markup& out, std::span<const RunParts> runs, const std::optional<SweepParts>& sweep) {
  Rows rows;
  if (sweep) {
    rows.varied = sweep->keys;
    rows.marks_best = runs.size() >= sweep->planned && sweep->missing.empty();
  }
  const std::string weights = common_weights(runs);
  if (weights.empty())
    write_table_of_settings(out, runs, rows);
  else
    out.element("p", "All runs ended with the same weights, " + weights + ".");
  write_table_of_runs(out, runs, sweep.has_value(), rows);
  if (!rows.marks_best) out.element("p", "No row is marked as the best, because not all runs of the sweep are here.");
  if (!sweep) write_table_of_costs(out, runs);
}

}  // namespace ct::report
