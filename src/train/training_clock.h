// The time of a run's process.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/seconds.h"
#include "train/time_left.h"

namespace ct {

/// The training time of a process, without evaluations and saves, and the time that it will still take.
class TrainingClock {
 public:
  /// Counting begins after the plan's first step.
  void start(const TimeLeft::Plan& plan) {
    begun_ = Clock::now();
    aside_ = 0;
    trained_.reset();
    first_step_ = plan.first_step;
    left_ = TimeLeft(plan);
  }
  /// Counting goes on from stop(), as if no time had passed.
  void go_on(const TimeLeft::Plan& plan) {
    aside_ = wall_seconds() - *trained_;
    trained_.reset();
    left_ = TimeLeft(plan);
  }
  void after_step(int64_t step) { left_.after_step(step, seconds(), aside_); }
  std::optional<double> seconds_left() const {
    const Clock::duration evaluating = evaluation_begun_ ? Clock::now() - *evaluation_begun_ : Clock::duration(0);
    return left_.seconds(std::chrono::duration<double>(evaluating).count());
  }
  /// Wall-clock seconds of the epoch in progress.
  double epoch_seconds() const { return wall_seconds() - epoch_begun_; }
  void begin_epoch() { epoch_begun_ = wall_seconds(); }
  /// Ends training; later time is not counted.
  void stop() { trained_ = seconds(); }
  double seconds() const { return trained_ ? *trained_ : wall_seconds() - aside_; }
  /// Seconds including evaluations and saves.
  double wall_seconds() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }
  double seconds_a_step(int64_t step) const { return seconds() / static_cast<double>(step - first_step_); }
  int64_t first_step() const { return first_step_; }
  /// Seconds since the run was set up, including the time before its first step.
  double seconds_since_setup() const { return std::chrono::duration<double>(Clock::now() - set_up_).count(); }

  /// Runs work whose time is not counted as training.
  template <class Work>
  void aside(const Work& work) {
    aside_ += seconds_of(work);
  }
  /// The same with an evaluation.
  template <class Work>
  void evaluation(const Work& work) {
    evaluation_begun_ = Clock::now();
    aside(work);
    evaluation_begun_.reset();
    left_.after_evaluation(aside_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point set_up_ = Clock::now();
  Clock::time_point begun_ = set_up_;
  double aside_ = 0, epoch_begun_ = 0;
  std::optional<double> trained_;
  std::optional<Clock::time_point> evaluation_begun_;
  TimeLeft left_;
  int64_t first_step_ = 0;
};

}  // namespace ct
