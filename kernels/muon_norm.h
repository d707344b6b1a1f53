// The norm of a matrix of Muon, in one fixed order: element e goes to accumulator e % (kMuonNormBlocks 256).
#pragma once

#include "block_sum.h"
#include "muon.h"

namespace ct::kernels {

constexpr int kMuonThreads = 256;
constexpr size_t kMuonSharedBytes = kMuonThreads / kWarp * sizeof(double);

/// sums[block] = the squares of the block's accumulators, for blocks of kMuonThreads threads; n includes pads of zeros.
__device__ __forceinline__ void add_squares(const float* x, int64_t n, int block, double* sums) {
  double sum = 0;
  for (int64_t i = int64_t{block} * kMuonThreads + threadIdx.x; i < n; i += int64_t{kMuonNormBlocks} * kMuonThreads) {
    const double value = x[i];
    sum = __fma_rn(value, value, sum);
  }
  sum = block_sum<kMuonThreads>(sum, shared_memory<double>());
  if (threadIdx.x == 0) sums[block] = sum;
}

/// 1 / max(norm, eps), in every thread of a block of kMuonThreads.
__device__ __forceinline__ float share_of_norm(const double* sums, double eps) {
  static_assert(kMuonNormBlocks <= kMuonThreads);
  auto* warp_sums = shared_memory<double>();
  const double sum = block_sum<kMuonThreads>(threadIdx.x < kMuonNormBlocks ? sums[threadIdx.x] : 0.0, warp_sums);
  __syncthreads();
  if (threadIdx.x == 0) {
    const double norm = sqrt(sum);
    warp_sums[0] = 1 / (norm > eps ? norm : eps);
  }
  __syncthreads();
  return static_cast<float>(warp_sums[0]);
}

}  // namespace ct::kernels
