// Lines of progress, every steps_per_print steps: rates and momenta, throughput and, with wall_clock_breakdown, the
// times of the parts of a step.
#pragma once

#include <algorithm>

#include "train/group_rates.h"
#include "train/run_context.h"

namespace ct {

/// Samples a second since the clock was started, without the time that steps waited for data.
class Throughputs {
 public:
  explicit Throughputs(const RunContext& run) : run_(run) {}

  void start() { running_from_ = timed(); }
  void after_step() {
    if (steps() == kWarmUp) running_from_ = timed();
  }

  /// Steps of this process.
  int64_t steps() const { return run_.state.step - run_.clock.first_step(); }
  bool is_warm() const { return steps() > kWarmUp; }
  /// Without the first two steps.
  double running() const { return of(steps() - kWarmUp, timed() - running_from_); }
  double of(int64_t steps, double seconds) const {
    return static_cast<double>(steps * run_.session.batch().train) / std::max(seconds, 1e-9);
  }

 private:
  static constexpr int64_t kWarmUp = 2;
  double timed() const { return run_.clock.seconds() - run_.session.waited(); }

  const RunContext& run_;
  double running_from_ = 0;  // timed seconds
};

class ProgressLines : public RunListener {
 public:
  explicit ProgressLines(const ListenerSetup& setup)
      : run_(setup.run), rates_(run_.config, {setup.total_steps}), throughputs_(run_) {}

  void start() override { throughputs_.start(); }
  void after_step() override { throughputs_.after_step(); }
  /// If lines were printed just before, or if a terminal shows progress, prints with -v only.
  void show_window(const StepWindow& window) override;

 private:
  const RunContext& run_;
  GroupRates rates_;
  Throughputs throughputs_;
  double shown_ = -1;  // wall-clock time of the latest lines
};

}  // namespace ct
