// The loss scale of fp16 training: the loss is multiplied by it, so that small gradients do not vanish, and gradients
// are divided by it before the update. A step whose gradients overflow is skipped and may lower the scale; a window of
// clean steps doubles it. A pure state machine: every rank that agrees on `overflow` holds the same state.
// (Micikevicius et al., Mixed Precision Training, 2018; DeepSpeed's runtime/fp16/loss_scale.py.)
#pragma once

#include <cstdint>

namespace ct {

struct LossScaleOptions {
  bool dynamic = true;  // false: the scale stays `initial`
  double initial = 65536;
  double min = 1;                       // 0 < min <= initial
  int64_t window = 1000;                // at least 1
  int64_t hysteresis = 2;               // overflows it takes to lower the scale; at least 1
  bool consecutive_hysteresis = false;  // a clean step forgives the overflows before it

  // The reference's surprises, see seed_loss_scale.
  bool without_hysteresis = false;  // DeepSpeed's FP16_Optimizer
  bool unscale_by_new = false;      // a step that doubles the scale is divided by the doubled one: half an update
};

struct LossScaleState {
  double scale = 65536;
  int64_t step = 0;            // updates so far
  int64_t last_overflow = -1;  // the step of the latest
  int64_t hysteresis_left = 2;

  bool operator==(const LossScaleState&) const = default;
};

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
