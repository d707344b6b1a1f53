// Sums over the rows of a matrix: a bias's gradient.
#pragma once

#include <cstdint>

namespace ct::cpu {

/// sums[c] = sum over r of x[r * stride + c]. Rows are added in order: f32 adds the rows of each run of 64, f64 adds
/// the runs. x is float or bf16 (uint16_t).
void column_sums(const float* x, int64_t rows, int64_t columns, int64_t stride, float* sums);
void column_sums(const uint16_t* x, int64_t rows, int64_t columns, int64_t stride, float* sums);

}  // namespace ct::cpu
