// The loss scale of fp16 training as data: the loss is multiplied by it, so that small gradients do not vanish, and
// gradients are divided by it before the update. kernels/step_control.cu, which includes this header, changes the scale
// by the rules that tests/reference/loss_scale.h defines.
#pragma once

#include <cstdint>

namespace ct {

struct LossScaleOptions {
  bool dynamic = true;  // false: the scale stays `initial`
  double initial = 65536;
  double min = 1;                       // 0 < min <= initial
  int64_t window = 1000;                // at least 1
  int64_t hysteresis = 2;               // number of overflows that lower the scale; at least 1
  bool consecutive_hysteresis = false;  // a step without overflow resets the count of overflows

  // DeepSpeed's unexpected behaviours, see seed_loss_scale in tests/reference/loss_scale.h.
  bool without_hysteresis = false;  // DeepSpeed's FP16_Optimizer
  bool unscale_by_new = false;      // a step that doubles the scale is divided by the doubled one: half an update
};

/// The loss scale's state, also in device memory.
struct LossScaleState {
  double scale = 65536;
  int64_t step = 0;            // updates so far
  int64_t last_overflow = -1;  // the step of the latest
  int64_t hysteresis_left = 2;
  int64_t diverged = 0;  // overflows at the minimum so far; the first ends the run

  bool operator==(const LossScaleState&) const = default;
};

}  // namespace ct
