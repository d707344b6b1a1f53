// Layer normalisation of rows after an optional residual, and its gradients: one pass over memory forward and one
// backward. Vectors run along a row, which stays in the L1 cache between its sums and its result.
//
// x, residual, sum, y and their gradients [rows][columns], float or bf16 (uint16_t), 64-byte aligned; w, b, dw, db f32
// [columns], mean and rstd f32 [rows]; w and b are read to the next multiple of 16. Row strides are padded(columns)
// (linear.h); pads are zero in operands and results. A row's variance is computed from the differences to its mean, so
// that a large mean costs no precision. dw and db add rows in order: f32 adds the rows of each run of 64, f64 adds the
// runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ct::cpu {

struct LayerNormShape {
  int64_t rows, columns;
};

/// sum = x + residual, rounded to the type; y = (sum - mean) * rstd * w + b, rstd = 1 / sqrt(var + eps).
template <class T>
struct LayerNormArgs {
  LayerNormShape shape;
  double eps;
  const T *x, *residual;  // nullptr: no residual, and no sum
  const float *w, *b;
  T *sum, *y;
  float *mean, *rstd;  // nullptr: not written
  float* workspace;
};
void layer_norm(const LayerNormArgs<float>& args);
void layer_norm(const LayerNormArgs<uint16_t>& args);

/// With g = dy w and n = (x - mean) * rstd: dx = dsum + rstd (g - mean of g - n * mean of g n); dw = sum over rows of
/// dy n, db of dy.
template <class T>
struct LayerNormGradArgs {
  LayerNormShape shape;
  const T *x, *dy, *dsum;  // dsum nullptr: none
  const float *w, *mean, *rstd;
  T* dx;  // nullptr: not computed
  float *dw, *db;
  float* workspace;
};
void layer_norm_grad(const LayerNormGradArgs<float>& args);
void layer_norm_grad(const LayerNormGradArgs<uint16_t>& args);

/// Bytes of workspace (64-byte aligned), enough for both functions.
size_t layer_norm_workspace(const LayerNormShape& shape);

}  // namespace ct::cpu
