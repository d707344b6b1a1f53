// The gradient's norm.
#pragma once

#include <cstdint>

namespace ct::cpu {

constexpr int64_t kSquareChunk = 4096;

/// sums[i] = sum of squares, in f64, of elements [4096 i, 4096 (i+1)) of x; not finite where x is not. sums has
/// ceil(n / 4096) places; the caller adds them in order. 4 bytes an element.
void sum_of_squares(const float* x, int64_t n, double* sums);

}  // namespace ct::cpu
