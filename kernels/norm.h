// The gradient's norm over fixed chunks, and from it the scalars of the update: everything between a step's last
// gradient and its optimizer, in the stream, without the host. Errors: of the launch.
#pragma once

#include "launch.h"
#include "step_scalars.h"

namespace ct::kernels {

/// Elements [begin, end) of the gradients, at most kSquareChunk of them, to sums[sum].
struct SquareChunk {
  int64_t begin, end, sum;
};
constexpr int64_t kSquareChunk = 4096;

/// sums[c.sum] = sum of squares of grads[c.begin .. c.end) in f64, for each of the `count` chunks c, a table in device
/// memory; other places of `sums` stay as they are. The order is fixed by the place in the chunk alone: element e goes
/// to accumulator e / 4 % 256, elements in ascending order, a = fma(x, x, a); accumulators 32 w .. 32 w + 31 are then
/// halved, a[i] += a[i + 16], + 8, ..., + 1, and their eight sums added in ascending order. A chunk's sum is finite if
/// and only if all its elements are: the check for overflow. 16-byte loads in chunks that begin at a multiple of 16
/// bytes. Reads 4 bytes an element, and moves 32 bytes a chunk.
struct SquareSumsArgs {
  const float* grads;
  const SquareChunk* chunks;
  int64_t count;
  double* sums;
};
cudaError_t square_sums(const SquareSumsArgs& args, cudaStream_t stream);

/// With total = sums[0] + sums[1] + ... in this order, by one thread:
///   norm = sqrt(total) / micro_batches / unscale
///   skip = total is not finite: ++skipped, ++bad_streak, and lr is what it would have been; otherwise
///   grad_scale = min(1, clip / (norm + 1e-6)) / micro_batches / unscale (torch.nn.utils.clip_grad_norm_; clip 0: off),
///   lr and bias corrections = schedule[applied - window_begin], bad_streak = 0, ++applied.
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
};
cudaError_t step_control(const StepControlArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
