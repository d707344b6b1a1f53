// The loss scale of fp16 training: the loss is multiplied by it, so that small gradients do not vanish, and gradients
// are divided by it before the update. A step whose gradients overflow is skipped and may lower the scale; a window of
// clean steps doubles it. A pure state machine: every rank that agrees on `overflow` holds the same state.
// (Micikevicius et al., Mixed Precision Training, 2018; DeepSpeed's runtime/fp16/loss_scale.py.)
#pragma once

#include "graph/loss_scale.h"

namespace ct {

enum class LossScaleChange : uint8_t {
  none,
  doubled,
  endured,   // an overflow that hysteresis forgave
  lowered,   // halved, at least to the minimum
  diverged,  // an overflow at the minimum: the run cannot go on
};

struct LossScaleStep {
  LossScaleState state;
  LossScaleChange change = LossScaleChange::none;
  bool skip = false;   // the weights and the schedule stay as they are
  double unscale = 1;  // what this step's gradients are to be divided by
};

LossScaleState initial_loss_scale(const LossScaleOptions& options);

/// What a step whose gradients did or did not overflow, on any rank, makes of the state it was computed with.
LossScaleStep next_loss_scale(const LossScaleOptions& options, const LossScaleState& state, bool overflow);

/// The options as the reference would act on them: at stage 0 another machine, which ignores hysteresis and never gives
/// up; at stages 1 to 3, when the configuration has none of the keys of a dynamic scale, a start at 2^32 without
/// hysteresis; everywhere gradients divided by the scale after its change.
LossScaleOptions seed_loss_scale(LossScaleOptions options, int zero_stage, bool has_dynamic_keys);

}  // namespace ct
