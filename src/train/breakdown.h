// What the time of a step went to (wall_clock_breakdown), in this program's words and in DeepSpeed's.
#pragma once

#include <string>

#include "engine/phase_clock.h"
#include "metrics/metrics_log.h"

namespace ct {

/// Means of some steps, milliseconds.
struct Breakdown {
  PhaseSeconds phases{};
  double data = 0;  // waiting for micro-batches
  double step = 0;  // by the clock: all of these, and what is between them

  double communication() const { return phases[StepPhase::exchange] + phases[StepPhase::update_exchange]; }
};

/// "time (ms) | forward: 1.20 | backward: ... | communication: ... | update: ... | data: ... | step: 4.56"
std::string to_line(const Breakdown& breakdown);
/// {"forward": 1.2, ...}, for a record.
Json to_json(const Breakdown& breakdown);

/// DeepSpeed counts gradients' exchange to the backward pass, and the update's to the step.
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
/// "time (ms) | optimizer_allgather: ...", which DeepSpeed has in ZeRO stages 1 and 2. What an update does to gradients
/// is a part of its one pass over memory, so that `optimizer_gradients` is always 0.
std::string deepspeed_optimizer_line(const DeepSpeedTimes& times);
/// "time (ms) | fwd_microstep: ..." of the mean one of `micro_steps`, and "time (ms) | fwd: ..." of the step.
std::string deepspeed_micro_line(const DeepSpeedTimes& times, int micro_steps);
std::string deepspeed_line(const DeepSpeedTimes& times);

}  // namespace ct
