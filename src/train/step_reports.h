// Reports about steps: lines of losses, records of metrics.jsonl.
#pragma once

#include <optional>
#include <vector>

#include "train/run_context.h"

namespace ct {

class StepReports {
 public:
  StepReports(const RunContext& run, int64_t total_steps) : run_(run), total_steps_(total_steps) {}

  /// Begins the first window of steps; called when the clock starts.
  void start();

  /// Reports a step that the state already counts, before the end of its epoch is counted. Returns true if a report was
  /// due, at the same steps on every rank.
  bool after_step();
  /// Adds the losses of all ranks since the last call to the running loss, in the order of micro-batches. Collective.
  void drain_losses();

 private:
  bool line_due() const;
  void print_line() const;
  double loss_of_step() const;
  void record();
  std::optional<Breakdown> take_breakdown(int64_t steps, double elapsed, double waited);
  void report_waiting(double fraction);

  RunContext run_;
  int64_t total_steps_;
  std::vector<double> step_losses_;  // of the latest step's micro-batches
  std::optional<double> balance_;    // mean balance of the latest step's mixtures of experts (Route), if any
  bool told_of_waiting_ = false;
  struct Window {  // since the latest record
    double begun = 0, waited = 0;
    int64_t step = 0;
  } window_;
};

}  // namespace ct
