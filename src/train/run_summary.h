// The messages and records at the start and the end of a run.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/evaluation.h"
#include "train/run_context.h"

namespace ct {

/// The accuracies on a split in the records of the run in `folder`, by step.
std::map<int64_t, double> recorded_accuracies(const Path& folder, const std::string& split);

/// The mean loss of the epoch that ended with that step.
std::optional<double> recorded_loss(const Path& folder, int64_t step);

class RunSummary {
 public:
  RunSummary(const RunContext& run, int64_t total_steps)
      : run_(run), total_steps_(total_steps), first_step_(run.state.step) {}

  /// Prints the sources and the parameters of the run. `checkpoint`: the one to continue from; empty: none.
  void announce(const std::string& config_source, const std::string& checkpoint) const;
  /// Says that all parameters learn from now on (train.unfreeze_at).
  void announce_unfrozen() const;
  void record_start() const;
  /// The tutorial's last lines: some labels and predictions, accuracy, accuracy by class.
  void print_results(const Evaluation& final) const;
  /// {"peak_bytes": {...}, "traffic": {...}}: bytes per rank, and elements and bytes that a rank moved in a step; means
  /// over ranks. "total" is the allocated memory by category; "process" and "proportional" are the operating system's
  /// VmHWM and Pss. `snapshot_bytes`: of asynchronous saves; `moved`, `norms`: by this rank in all steps. Collective.
  Json usage(size_t snapshot_bytes, const Traffic& moved, const Traffic& norms) const;
  /// The `end` record, with `result` in it. `reason` as in RunFolder.
  void record_end(const std::string& reason, const Json& result) const;
  /// The last messages. `usage`: of usage(); `folder`: the run's; `final`: the latest evaluation, of the chosen weights
  /// if train.best chose by validation images.
  void print_end(const std::string& weights_sha256, const Json& usage, const Path& folder,
                 const Evaluation& final) const;

 private:
  std::string report_wire() const;
  Json best_evaluation() const;
  std::string best_line(const Path& folder, const Evaluation& final) const;
  std::string best_of_last(const Path& folder, const Evaluation& final) const;
  int64_t steps() const { return run_.state.step - run_.clock.first_step(); }
  double images_a_second() const;
  bool trained() const { return run_.state.step > first_step_; }

  RunContext run_;
  int64_t total_steps_, first_step_;  // the latter of this program
};

}  // namespace ct
