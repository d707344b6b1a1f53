// What a step does, decided in the stream, without the host: from the gradient's norm to clipping, skipping, learning
// rate and loss scale. Errors: of the launch.
#pragma once

#include "graph/loss_scale.h"
#include "launch.h"
#include "plan/step_scalars.h"

namespace ct::kernels {

/// What the step does, with total = sums[0] + sums[1] + ... in this order, by one thread:
///   norm = sqrt(total) / leaves / unscale, where leaves = micro_batches / predivided
///   skip = total is not finite: ++skipped, ++bad_streak, and lr is what it would have been; otherwise
///   grad_scale = min(1, clip / (norm + 1e-6)) / leaves / unscale (torch.nn.utils.clip_grad_norm_; clip 0: off),
///   lr and coefficients = schedule[applied - window_begin], bad_streak = 0, ++applied.
/// All in f64. `unscale` is 1 without loss scale; otherwise what this step's gradients are to be divided by, and the
/// state goes through Micikevicius et al.'s (2018) and DeepSpeed's machine: an overflow uses up hysteresis, then halves
/// the scale down to `min`; `window` clean steps in a row double it. Reads 8 bytes a chunk.
struct StepControlArgs {
  const double* sums;
  int64_t count;
  const ScheduleRow* schedule;
  StepScalars* scalars;
  double clip;
  int64_t micro_batches;
  LossScaleState* loss_scale = nullptr;  // null: none
  LossScaleOptions loss_scale_options = {};
  double predivided = 1;  // by which the leaves of the sum are divided already
};
cudaError_t step_control(const StepControlArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
