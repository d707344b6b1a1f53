// The results of a sweep's runs, for users and scripts, in files with checksums that identify their writer.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "cli/sweep/plan.h"
#include "train/config/config.h"

namespace ct {

/// A run that has ended, by its records.
struct RunResult {
  struct Evaluated {
    double accuracy = 0, loss = 0;
    int64_t epoch = 0;
  };
  // Of the weights in best.bin (train.best): on the validation images, which settings are compared by, or without these
  // on the test images; and on the latter, if they judged those weights.
  Evaluated kept;
  std::optional<Evaluated> test;
  bool validated = false;         // kept is of validation images
  std::optional<Evaluated> best;  // by train.best.metric, on the held-out split if that selects
  double best_train_loss =
      std::numeric_limits<double>::quiet_NaN();  // of that epoch's images; NaN: the epoch did not end
  int64_t end_epoch = 0, parameters = 0;
};
/// The result of the run in that folder, by its train.best; nullopt if its records have no end.
std::optional<RunResult> read_result(const Path& run, const Config& config);

/// The settings of runs that vary nothing but folds and seeds.
inline constexpr const char* kAsConfigured = "as configured";

/// A planned run and its outcome.
struct SweepOutcome {
  SweepRun run;
  Config config;
  int64_t ranks = 1;
  std::string fingerprint;  // of the configuration
  double seconds = 0;       // of its processes
  std::string finished;     // time of its end; empty: not finished
  std::optional<RunResult> result;
};

/// Mean and standard deviation of a sample; the deviation of a single number is 0.
struct MeanAndDeviation {
  double mean = 0, deviation = 0;
};
MeanAndDeviation mean_and_deviation(const std::vector<double>& numbers);

/// What runs of the same settings are judged by, a number of each run.
struct RunScores {
  std::vector<double> accuracies, losses;  // accuracies from 0 to 1
};
/// The index of the best: that of the highest mean accuracy; of equal ones that of the lowest mean loss, then the
/// first. `all` has at least one, and each of them at least one run.
size_t best_of(const std::vector<RunScores>& all);

/// Mean and deviation over folds and seeds, a row for each combination of settings, in Markdown.
std::string table_text(const std::vector<SweepOutcome>& outcomes);

/// "the best by its validation images: train.epochs=2, 61.90 %", by best_of(); empty: some run has none, or there is
/// one row.
std::string best_by_validation(const std::vector<SweepOutcome>& outcomes);

/// A block "Experiment:" for each run that has ended, with aligned lines "key: value".
std::string results_text(const std::vector<SweepOutcome>& outcomes);

/// A picture (SVG): the accuracy of each run, with mean and deviation for each combination.
std::string plot_text(const std::vector<SweepOutcome>& outcomes);

/// Runs that differ only by their folds and seeds, in the plan's order.
struct SweepGroup {
  std::string text;  // settings
  std::vector<const SweepOutcome*> all, ended;
  /// A number of each run that has ended.
  template <class Of>
  std::vector<double> numbers(Of of) const {
    std::vector<double> found;
    for (const SweepOutcome* outcome : ended) found.push_back(of(*outcome));
    return found;
  }
  std::vector<double> accuracies() const {
    return numbers([](const SweepOutcome& o) { return o.result->kept.accuracy; });
  }
};
std::vector<SweepGroup> groups_of(const std::vector<SweepOutcome>& outcomes);

/// A sweep's files in addition to kSweepRecords (train/run/run_files.h).
inline constexpr std::string_view kSweepTable = "table.md", kSweepResults = "results.txt", kSweepPlot = "plot.svg";

/// Has the folder a table that a sweep wrote?
bool has_sweep_table(const Path& folder);

/// Is there nothing under this name of a sweep's files, or what a sweep wrote?
bool is_own_sweep_file(const Path& out, std::string_view name);
/// Throws Error(usage) with the first file in `out` that a sweep would replace and that no sweep wrote.
void require_own_sweep_files(const Path& out);

/// `text` after a line with its checksum, in a comment between `open` and `close`.
std::string sealed_sweep_file(const std::string& text, const char* open, const char* close);

}  // namespace ct
