// Lines in DeepSpeed's form (utils/logging.py, utils/timer.py and runtime/engine.py of 0.16.5).
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "engine/phase_clock.h"
#include "graph/loss_scale.h"
#include "metrics/step_line.h"

namespace ct {

/// Python prints a pair from a configuration as a list (momentum_text), a pair from its own code as a tuple, and an
/// absent momentum as the integer 0: "(0.8, 0.999)", "0.9", "0".
std::string tuple_text(const GroupMomentum& momentum);

struct Throughput {
  int64_t micro_steps = 0, steps = 0;  // of this process
  double running = 0, current = 0;     // samples a second
  int64_t bytes = 0, most_bytes = 0;   // memory, now and at its peak
};
/// "epoch=0/micro_step=20/global_step=10, RunningAvgSamplesPerSec=..., ..., MaxMemAllocated=0.25GB". The epoch is 0.
std::string throughput_line(const Throughput& throughput);

/// In DeepSpeed the exchange of gradients is part of the backward pass, and that of the update part of the step.
struct DeepSpeedTimes {
  explicit DeepSpeedTimes(const PhaseSeconds& phases)
      : forward(phases[StepPhase::forward]),
        backward_inner(phases[StepPhase::backward]),
        backward_allreduce(phases[StepPhase::exchange]),
        optimizer_allgather(phases[StepPhase::update_exchange]),
        optimizer_step(phases[StepPhase::update]) {}
  double backward() const { return backward_inner + backward_allreduce; }
  double step() const { return optimizer_step + optimizer_allgather; }
  double forward, backward_inner, backward_allreduce, optimizer_allgather, optimizer_step;
};
/// "time (ms) | optimizer_allgather: ...", which DeepSpeed prints in ZeRO stages 1 and 2. An update processes gradients
/// in its single pass over memory, so `optimizer_gradients` is always 0.
std::string optimizer_time_line(const DeepSpeedTimes& times);
/// "time (ms) | fwd_microstep: ..." with the mean over `micro_steps`, and "time (ms) | fwd: ..." of the step.
std::string micro_step_time_line(const DeepSpeedTimes& times, int micro_steps);
std::string step_time_line(const DeepSpeedTimes& times);

/// The lines about a step of the loss scale (runtime/zero/stage_1_and_2.py, and runtime/fp16/fused_optimizer.py for the
/// scale without hysteresis); for most steps none.
std::vector<std::string> loss_scale_lines(const LossScaleOptions& options, const LossScaleState& before,
                                          const LossScaleState& after, bool overflow);

/// "[2025-02-21 12:05:41,123] [INFO] [FILE.py:LINE:FUNCTION] text", in local time. `where`: "FILE.py:LINE:FUNCTION".
std::string log_line(std::string_view where, std::string_view text,
                     std::chrono::system_clock::time_point now = std::chrono::system_clock::now());
/// The same from log_dist, by rank 0.
std::string log_dist_line(std::string_view text,
                          std::chrono::system_clock::time_point now = std::chrono::system_clock::now());
/// The source position in throughput lines.
inline constexpr std::string_view kThroughputTimer = "timer.py:264:stop";

}  // namespace ct
