// The sum of a block's values in one fixed order.
#pragma once

#include "launch.h"

namespace ct::kernels {

/// The sum of kThreads values, in thread 0: within each warp by halves, a[i] += a[i + 16], + 8, ..., + 1, then over
/// warps in ascending order. `warp_sums`: shared memory for kThreads / 32 doubles. All threads must call it.
template <int kThreads>
__device__ __forceinline__ double block_sum(double value, double* warp_sums) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) value += __shfl_down_sync(kAllLanes, value, distance);
  if (threadIdx.x % kWarp == 0) warp_sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int warp = 1; warp < kThreads / kWarp; ++warp) value += warp_sums[warp];
  return value;
}

}  // namespace ct::kernels
