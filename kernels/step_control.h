// The decisions of a step, computed in the stream without the host: gradient norm, clipping, skipping, learning rate
// and loss scale. The function returns only errors of the launch.
#pragma once

#include "copy.h"
#include "grad_norm.h"
#include "graph/loss_scale.h"
#include "plan/step_scalars.h"

namespace ct::kernels {

/// One thread computes, with total = sums[0] + sums[1] + ... in this order:
///   norm = sqrt(total) / leaves / unscale, where leaves = micro_batches / predivided
///   skip = total is not finite: ++skipped, ++bad_streak, and lr as in an applied step; otherwise
///   grad_scale = min(1, clip / (norm + 1e-6)) / leaves / unscale (torch.nn.utils.clip_grad_norm_; clip 0: off),
///   lr and coefficients = schedule[applied - window_begin], bad_streak = 0, ++applied.
/// All of this is computed in f64. `unscale` is 1 without a loss scale, otherwise the divisor of this step's gradients.
/// The loss scale follows Micikevicius et al. (2018) and DeepSpeed: an overflow uses up hysteresis, then halves the
/// scale down to `min`; `window` steps without an overflow double it. The launch reads 8 bytes per chunk.
struct StepControlArgs {
  const double* sums;
  int64_t count;
  const ScheduleRow* schedule;
  StepScalars* scalars;
  double clip;
  int64_t micro_batches;
  LossScaleState* loss_scale = nullptr;  // null: none
  LossScaleOptions loss_scale_options = {};
  double predivided = 1;   // divisor already applied to the leaves of the sum
  RingCopies copies = {};  // made after that, by a warp each: small ones
};
cudaError_t step_control(const StepControlArgs& args, cudaStream_t stream);

/// square_sums (grad_norm.h) and step_control of its sums in one launch, with the same bits: the last block decides.
struct NormAndControlArgs {
  SquareSumsArgs squares;
  StepControlArgs control;
  unsigned* tickets;  // tickets.h; the first is used
};
cudaError_t norm_and_control(const NormAndControlArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
