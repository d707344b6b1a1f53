// Sums over the rows of a matrix: a bias's gradient.
#pragma once

#include <cstdint>

namespace ct::cpu {

/// sums[c] = sum over r of x[r * stride + c], added row by row, in f32 over runs of 64 rows and in f64 over runs. x is
/// float or bf16 (uint16_t).
void column_sums(const float* x, int64_t rows, int64_t columns, int64_t stride, float* sums);
void column_sums(const uint16_t* x, int64_t rows, int64_t columns, int64_t stride, float* sums);

}  // namespace ct::cpu
