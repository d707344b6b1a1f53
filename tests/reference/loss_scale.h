// The loss scale of fp16 training: the loss is multiplied by it, so that small gradients do not vanish, and gradients
// are divided by it before the update. A step whose gradients overflow is skipped and may lower the scale; a window of
// clean steps doubles it. A pure state machine: every rank that agrees on `overflow` holds the same state.
// (Micikevicius et al., Mixed Precision Training, 2018; DeepSpeed's runtime/fp16/loss_scale.py.)
#pragma once

#include <algorithm>

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

inline LossScaleChange lower(const LossScaleOptions& options, LossScaleState& state) {
  state.last_overflow = state.step;
  if (!options.without_hysteresis) {
    if (state.hysteresis_left > 1) {
      --state.hysteresis_left;
      return LossScaleChange::endured;
    }
    if (state.scale <= options.min) {
      ++state.diverged;
      return LossScaleChange::diverged;
    }
  }
  state.scale = std::max(state.scale / 2, options.min);
  return LossScaleChange::lowered;
}

inline LossScaleChange raise(const LossScaleOptions& options, LossScaleState& state) {
  int64_t clean = state.step - state.last_overflow;
  if (options.without_hysteresis) --clean;
  const bool window_full = clean > 0 && clean % options.window == 0;
  if (options.consecutive_hysteresis || window_full) state.hysteresis_left = options.hysteresis;
  if (!window_full) return LossScaleChange::none;
  state.scale *= 2;
  return LossScaleChange::doubled;
}

inline LossScaleState initial_loss_scale(const LossScaleOptions& options) {
  return {.scale = options.initial, .hysteresis_left = options.hysteresis};
}

/// What a step whose gradients did or did not overflow, on any rank, makes of the state it was computed with.
inline LossScaleStep next_loss_scale(const LossScaleOptions& options, const LossScaleState& state, bool overflow) {
  LossScaleStep next{.state = state, .skip = overflow};
  if (options.dynamic) next.change = overflow ? lower(options, next.state) : raise(options, next.state);
  ++next.state.step;
  next.unscale = options.unscale_by_new ? next.state.scale : state.scale;
  return next;
}

/// The options as the reference would act on them: at stage 0 another machine, which ignores hysteresis and never gives
/// up; at stages 1 to 3, when the configuration has none of the keys of a dynamic scale, a start at 2^32 without
/// hysteresis; everywhere gradients divided by the scale after its change.
inline LossScaleOptions seed_loss_scale(LossScaleOptions options, int zero_stage, bool has_dynamic_keys) {
  options.unscale_by_new = true;
  if (zero_stage == 0) {
    options.without_hysteresis = true;
  } else if (options.dynamic && !has_dynamic_keys) {
    options.initial = 4294967296.0;
    options.hysteresis = 1;
  }
  return options;
}

}  // namespace ct
