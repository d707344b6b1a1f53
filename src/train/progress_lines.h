// Lines of progress: one at the end of each epoch, the one that says what runs, and with -v, every steps_per_print
// steps, rates and momenta, throughput and, with wall_clock_breakdown, the times of the parts of a step.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "train/group_rates.h"
#include "train/run_context.h"

namespace ct {

/// Samples a second since the clock was started, without the time that steps waited for data.
class Throughputs {
 public:
  explicit Throughputs(const RunContext& run) : run_(run) {}

  void start() {
    first_step_ = run_.state.step;
    running_from_ = timed();
  }
  void after_step() {
    if (steps() == kWarmUp) running_from_ = timed();
  }

  int64_t steps() const { return run_.state.step - first_step_; }
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
  int64_t first_step_ = 0;
  double running_from_ = 0;  // timed seconds
};

class ProgressLines : public RunListener {
 public:
  /// `whole_lines`: false if another listener's lines replace them; what runs is shown nevertheless.
  ProgressLines(const ListenerSetup& setup, bool whole_lines);

  void start() override;
  void before_step() override;
  void after_step() override { throughputs_.after_step(); }
  void show_loss(int64_t samples, double loss) override;
  void show_step(double loss) override;
  void show_window(const StepWindow& window) override;
  void show_epoch(double loss) override;
  void show_evaluating(const std::string& split, int64_t images, int64_t of) override;
  void show_evaluation(const Evaluation& first, const Evaluation& test, bool ends_epoch) override;

 private:
  void print_epoch(const Evaluation* evaluation);
  std::string best_text() const;
  std::string left_text() const;
  void read_records(const Path& folder);

  const RunContext& run_;
  const int64_t total_steps_, epochs_;
  const bool whole_lines_;
  GroupRates rates_;
  Throughputs throughputs_;
  double smoothed_ = 0, weight_ = 0;  // a moving average of the steps' losses, and the sum of its weights
  double lr_ = 0;                     // of the latest step whose loss is known
  double best_ = -1;                  // accuracy of the held-out split or, without one, of the test set; < 0: none
  std::optional<double> epoch_loss_;  // of the epoch that has just ended
  double breakdown_shown_ = -1;       // wall-clock time
};

}  // namespace ct
