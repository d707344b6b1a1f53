#include "selftest/reference/loss_scale.h"

#include <algorithm>

namespace ct {
namespace {

LossScaleChange lower(const LossScaleOptions& options, LossScaleState& state) {
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

LossScaleChange raise(const LossScaleOptions& options, LossScaleState& state) {
  int64_t clean = state.step - state.last_overflow;
  if (options.without_hysteresis) --clean;
  const bool window_full = clean > 0 && clean % options.window == 0;
  if (options.consecutive_hysteresis || window_full) state.hysteresis_left = options.hysteresis;
  if (!window_full) return LossScaleChange::none;
  state.scale *= 2;
  return LossScaleChange::doubled;
}

}  // namespace

LossScaleState initial_loss_scale(const LossScaleOptions& options) {
  return {.scale = options.initial, .hysteresis_left = options.hysteresis};
}

LossScaleStep next_loss_scale(const LossScaleOptions& options, const LossScaleState& state, bool overflow) {
  LossScaleStep next{.state = state, .skip = overflow};
  if (options.dynamic) next.change = overflow ? lower(options, next.state) : raise(options, next.state);
  ++next.state.step;
  next.unscale = options.unscale_by_new ? next.state.scale : state.scale;
  return next;
}

LossScaleOptions seed_loss_scale(LossScaleOptions options, int zero_stage, bool has_dynamic_keys) {
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
