// Batch normalisation, a residual and ReLU in two passes over memory forward (statistics, result) and two backward.
// Vectors run along channels.
//
// x, residual, y and their gradients [rows][channels], float or bf16 (uint16_t); values per channel f32 [channels].
// Sums add short runs of rows in f32, and the runs in f64. They sum differences from the channel's first element
// (backward: from its mean), so that a large mean costs no precision.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ct::cpu {

struct BatchNormShape {
  int64_t rows, channels;
  double eps;
};

/// y = relu((x - mean) / sqrt(var + eps) * w + b + residual).
template <class T>
struct BatchNormArgs {
  BatchNormShape shape;
  const T *x, *residual;  // nullptr: none
  const float *w, *b;
  T* y;
  bool relu;
  float *mean, *var;  // of these rows (biased): written by batch_norm, read by batch_norm_result
  void* workspace;
};
/// Statistics and result.
void batch_norm(const BatchNormArgs<float>& args);
void batch_norm(const BatchNormArgs<uint16_t>& args);
/// The result from given mean and var.
void batch_norm_result(const BatchNormArgs<float>& args);
void batch_norm_result(const BatchNormArgs<uint16_t>& args);

/// Gradients of batch_norm. g = dy where y > 0, else 0; with y nullptr, g = dy. If b is given (only without a
/// residual), y > 0 is recomputed from x, because that costs less than reading y. db = sum g, dw = sum g (x -
/// mean)/sigma, dx = w/sigma (g - db/rows - (x - mean)/sigma dw/rows); batch_var = var rows/(rows - 1).
/// dw nullptr: mean and var are constants, so dx = w/sigma g; x, b, db, batch_mean and batch_var are nullptr too.
template <class T>
struct BatchNormGradArgs {
  BatchNormShape shape;
  const T *x, *y, *dy;
  const float *w, *b, *mean, *var;
  T *dx, *dresidual;  // dresidual = g; nullptr: not computed
  float *dw, *db, *batch_mean, *batch_var;
  void* workspace;
};
void batch_norm_grad(const BatchNormGradArgs<float>& args);
void batch_norm_grad(const BatchNormGradArgs<uint16_t>& args);

/// Bytes of workspace (64-byte aligned), enough for each of these functions.
size_t batch_norm_workspace(const BatchNormShape& shape);

}  // namespace ct::cpu
