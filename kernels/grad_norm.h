// Sums of squares of the gradient over fixed chunks; step_control.h computes the norm from them. Functions return only
// errors of the launch.
#pragma once

#include "launch.h"

namespace ct::kernels {

/// Elements [begin, end) of the gradients, at most kSquareChunk; their sum is written to sums[sum].
struct SquareChunk {
  int64_t begin, end, sum;
};
constexpr int64_t kSquareChunk = 4096;

/// sums[c.sum] = sum of squares of grads[c.begin .. c.end) in f64, for each of the `count` chunks c, a table in device
/// memory; other elements of `sums` do not change. The order depends on the position in the chunk alone: element e goes
/// to accumulator e / 4 % 256, elements in ascending order, a = fma(x, x, a); accumulators 32 w .. 32 w + 31 are then
/// halved, a[i] += a[i + 16], + 8, ..., + 1, and their eight sums added in ascending order. The sum of a chunk is
/// finite if and only if all its elements are, so it detects overflow. Loads are 16 bytes wide in chunks that begin at
/// a multiple of 16 bytes. Reads 4 bytes per element, and moves 32 bytes per chunk.
struct SquareSumsArgs {
  const float* grads;
  const SquareChunk* chunks;
  int64_t count;
  double* sums;
};
cudaError_t square_sums(const SquareSumsArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
