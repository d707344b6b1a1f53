// The loss scale of fp16 training. The loss is multiplied by the scale, so that small gradients do not underflow, and
// gradients are divided by it before the update. A step whose gradients overflow is skipped and may lower the scale; a
// window of steps without overflow doubles it. This is a pure state machine: ranks that agree on `overflow` have the
// same state. (Micikevicius et al., Mixed Precision Training, 2018; DeepSpeed's runtime/fp16/loss_scale.py.)
#pragma once

#include "graph/loss_scale.h"

namespace ct {

enum class LossScaleChange : uint8_t {
  none,
  doubled,
  endured,   // an overflow within the hysteresis: the scale is unchanged
  lowered,   // halved, at least to the minimum
  diverged,  // an overflow at the minimum: the run cannot continue
};

struct LossScaleStep {
  LossScaleState state;
  LossScaleChange change = LossScaleChange::none;
  bool skip = false;   // the weights and the schedule stay as they are
  double unscale = 1;  // the divisor of this step's gradients
};

LossScaleState initial_loss_scale(const LossScaleOptions& options);

/// The state after a step. `overflow`: a gradient of any rank overflowed.
LossScaleStep next_loss_scale(const LossScaleOptions& options, const LossScaleState& state, bool overflow);

/// The options with DeepSpeed's behaviour. At stage 0 it has another state machine, which ignores hysteresis and never
/// stops. At stages 1 to 3, without the keys of a dynamic scale, it starts at 2^32 without hysteresis. At every stage
/// it divides gradients by the scale after its change.
LossScaleOptions seed_loss_scale(LossScaleOptions options, int zero_stage, bool has_dynamic_keys);

}  // namespace ct
