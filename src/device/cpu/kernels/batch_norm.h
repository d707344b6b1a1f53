// Batch normalisation, a residual and ReLU in as few passes over memory as they take: two forward (statistics, result),
// two backward. Vectors along channels.
//
// x, residual, y and their gradients [rows][channels], float or bf16 (uint16_t); everything of a channel f32
// [channels]. Sums over rows: f32 over short runs of rows, of differences from the channel's first element (its mean
// backward) so that a large mean costs no precision, and f64 over runs.
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
/// The result by given mean and var.
void batch_norm_result(const BatchNormArgs<float>& args);
void batch_norm_result(const BatchNormArgs<uint16_t>& args);

/// Gradients of batch_norm: with g = dy where y > 0 (y nullptr: dy), which is computed again from x and b where b is
/// given, as there was no residual then, and costs less than reading y; db = sum g, dw = sum g (x - mean)/sigma, dx =
/// w/sigma (g - db/rows - (x - mean)/sigma dw/rows); batch_var = var rows/(rows - 1).
template <class T>
struct BatchNormGradArgs {
  BatchNormShape shape;
  const T *x, *y, *dy;
  const float *w, *b, *mean, *var;
  T *dx, *dresidual;  // dresidual = g; nullptr: not wanted
  float *dw, *db, *batch_mean, *batch_var;
  void* workspace;
};
void batch_norm_grad(const BatchNormGradArgs<float>& args);
void batch_norm_grad(const BatchNormGradArgs<uint16_t>& args);

/// Bytes of workspace, 64-byte aligned, enough for any of them.
size_t batch_norm_workspace(const BatchNormShape& shape);

}  // namespace ct::cpu
