// The objects that all parts of a run on one rank use.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/seconds.h"
#include "train/run/run_state.h"
#include "train/run_listener.h"
#include "train/run_log.h"
#include "train/session.h"

namespace ct {

/// The training time of a process, without evaluations and saves.
class TrainingClock {
 public:
  /// Counting begins after that step.
  void start(int64_t step) {
    begun_ = Clock::now();
    aside_ = 0;
    trained_.reset();
    first_step_ = step;
  }
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

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point set_up_ = Clock::now();
  Clock::time_point begun_ = set_up_;
  double aside_ = 0;
  std::optional<double> trained_;
  int64_t first_step_ = 0;
};

struct RunContext {
  const Config& config;
  TrainingSession& session;
  RunState& state;
  TrainingClock& clock;
  RunLog& log;
  const std::vector<std::unique_ptr<RunListener>>& listeners;
};

}  // namespace ct
