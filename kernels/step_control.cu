#include <cmath>

#include "chunk_square_sum.h"
#include "last_block.h"
#include "ring_slot.h"
#include "step_control.h"

namespace ct::kernels {
namespace {

/// Makes of the state what this step does; returns what its gradients are to be divided by.
__device__ double next_loss_scale(const LossScaleOptions& options, LossScaleState& state, bool overflow) {
  const double before = state.scale;
  if (options.dynamic && overflow) {
    state.last_overflow = state.step;
    if (!options.without_hysteresis && state.hysteresis_left > 1)
      --state.hysteresis_left;
    else if (!options.without_hysteresis && state.scale <= options.min)
      ++state.diverged;
    else
      state.scale = fmax(state.scale / 2, options.min);
  } else if (options.dynamic) {
    const int64_t clean = state.step - state.last_overflow - (options.without_hysteresis ? 1 : 0);
    const bool window_full = clean > 0 && clean % options.window == 0;
    if (options.consecutive_hysteresis || window_full) state.hysteresis_left = options.hysteresis;
    if (window_full) state.scale *= 2;
  }
  ++state.step;
  return options.unscale_by_new ? state.scale : before;
}

__device__ void control(const StepControlArgs& args, double total) {
  StepScalars& s = *args.scalars;
  const bool skip = !isfinite(total);
  const double unscale =
      args.loss_scale == nullptr ? 1 : next_loss_scale(args.loss_scale_options, *args.loss_scale, skip);
  const double leaves = static_cast<double>(args.micro_batches) / args.predivided;
  s.norm = sqrt(total) / leaves / unscale;
  s.skip = skip;
  const ScheduleRow row = args.schedule[s.applied - s.window_begin];
  s.lr = row.lr;
  if (skip) {
    ++s.skipped;
    ++s.bad_streak;
    return;
  }
  const double factor = args.clip > 0 ? fmin(1.0, args.clip / (s.norm + 1e-6)) : 1.0;
  s.grad_scale = factor / leaves / unscale;
  s.coefficients = row.coefficients;
  s.bad_streak = 0;
  ++s.applied;
}

constexpr int kTile = 1024;
constexpr size_t kTiles = 2 * kTile * sizeof(double);  // bytes of shared memory
constexpr int kControlThreads = 2 * kWarp;

/// One thread adds, for the order's sake, out of shared memory, which the other warps fill a tile ahead. All threads of
/// the block call it. `sums` may be what other blocks of the same kernel have written, so no cache near this block may
/// hold it: volatile.
__device__ void decide(const StepControlArgs& args) {
  const volatile double* sums = args.sums;
  auto* tiles = shared_memory<double>();
  const auto fill = [&](int64_t tile, int first_thread) {
    const int64_t begin = tile * kTile;
    const int64_t left = args.count - begin;
    for (int i = static_cast<int>(threadIdx.x) - first_thread; i >= 0 && i < kTile && i < left;
         i += static_cast<int>(blockDim.x) - first_thread)
      tiles[tile % 2 * kTile + i] = sums[begin + i];
  };
  fill(0, 0);
  __syncthreads();
  double total = 0;
  for (int64_t tile = 0; tile * kTile < args.count; ++tile) {
    fill(tile + 1, kWarp);
    if (threadIdx.x == 0) {
      const double* of_tile = tiles + tile % 2 * kTile;
      const int64_t left = args.count - tile * kTile;
      const int count = left < kTile ? static_cast<int>(left) : kTile;
#pragma unroll 16
      for (int i = 0; i < count; ++i) total += of_tile[i];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) control(args, total);
  if (args.copies.count == 0) return;
  __syncthreads();
  copy_slots_by_warps(args.copies);
}

__global__ void __launch_bounds__(kControlThreads, 1) step_control_kernel(StepControlArgs args) {
  wait_for_previous();
  decide(args);
}

__global__ void __launch_bounds__(kSquareThreads) norm_and_control_kernel(NormAndControlArgs args) {
  wait_for_previous();
  sum_squares(args.squares, blockIdx.x);
  if (is_last_block(args.tickets, gridDim.x)) decide(args.control);
}

}  // namespace

cudaError_t step_control(const StepControlArgs& args, cudaStream_t stream) {
  const Grid grid{.blocks = 1, .threads = kControlThreads, .shared_bytes = kTiles};
  return launch_early(step_control_kernel, grid, stream, args);
}

cudaError_t norm_and_control(const NormAndControlArgs& args, cudaStream_t stream) {
  if (args.squares.count == 0) return step_control(args.control, stream);
  static_assert(kSquareShared <= kTiles);
  const Grid grid{
      .blocks = static_cast<unsigned>(args.squares.count), .threads = kSquareThreads, .shared_bytes = kTiles};
  return launch_early(norm_and_control_kernel, grid, stream, args);
}

}  // namespace ct::kernels
