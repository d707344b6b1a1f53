// The sum of squares of one chunk, by one block: grad_norm.h states its order.
#pragma once

#include "block_sum.h"
#include "element.h"
#include "grad_norm.h"

namespace ct::kernels {

constexpr int kSquareThreads = 256;  // of a block
constexpr size_t kSquareShared = kSquareThreads / kWarp * sizeof(double);

__device__ __forceinline__ double add_square(float x, double sum) {
  const double value = x;
  return __fma_rn(value, value, sum);
}

/// Writes the sum of chunk number `number`. All threads of the block call it, with kSquareShared bytes of shared
/// memory.
__device__ __forceinline__ void sum_squares(const SquareSumsArgs& args, unsigned number) {
  constexpr int kWidth = Pack<float>::kSize;
  const SquareChunk chunk = args.chunks[number];
  const float* x = args.grads + chunk.begin;
  const int64_t n = chunk.end - chunk.begin;
  const bool aligned = reinterpret_cast<uintptr_t>(x) % 16 == 0;
  double sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x * kWidth; i < n; i += kSquareThreads * kWidth) {
    if (aligned && i + kWidth <= n) {
      const auto pack = *reinterpret_cast<const Pack<float>*>(x + i);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum = add_square(pack.at[k], sum);
    } else {
      for (int64_t k = i; k < n && k < i + kWidth; ++k) sum = add_square(x[k], sum);
    }
  }
  sum = block_sum<kSquareThreads>(sum, shared_memory<double>());
  if (threadIdx.x == 0) args.sums[chunk.sum] = sum;
}

}  // namespace ct::kernels
