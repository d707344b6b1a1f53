// The gradient's norm.
#pragma once

#include <cstdint>

namespace ct::cpu {

constexpr int64_t kSquareChunk = 4096;

/// sums[i] = sum of squares, in f64, of elements [4096 i, 4096 (i+1)) of x; not finite if one of these is not. sums has
/// ceil(n / 4096) elements, which the caller adds in order. Reads 4 bytes per element.
void sum_of_squares(const float* x, int64_t n, double* sums);

}  // namespace ct::cpu
