// Batch normalisation over rows (Ioffe & Szegedy, 2015), a residual and ReLU in one, and its gradient.
//
//   forward    y = relu((x - mean) / sqrt(var + eps) * w + b + residual), var biased
//   gradient   g = 0 where y <= 0, else dy (a NaN in y lets dy through); dresidual = g;
//              db = sum g, dw = sum g (x - mean) / sigma, sigma = sqrt(var + eps);
//              dx = w / sigma (g - db / rows - (x - mean) / sigma dw / rows)
//
// x, residual, y and their gradients [rows][channels], dense (NHWC: rows = N H W), of shape.type; everything of a
// channel f32 [channels]. Any number of channels >= 1, any alignment; 16-byte accesses where a row is a whole number of
// them and all pointers are aligned to them.
//
// Rows are cut into parts by the shape alone. Of each part, f32 sums per thread (of at most 64 rows) and then by a tree
// over threads; forward they are of differences from the part's first row, so that a large mean costs no precision.
// Parts are merged in f64, in order (Chan, Golub & LeVeque, 1983). Nothing depends on the device or on alignment, no
// atomics.
//
// All run in the stream. cudaErrorInvalidValue: no rows or no channels.
#pragma once

#include "element.h"

namespace ct::kernels {

struct BatchNormShape {
  int64_t rows, channels;
  Type type;
};

struct BatchNormArgs {
  BatchNormShape shape;
  double eps;
  bool relu;
  const void *x, *residual;  // nullptr: none
  const float *w, *b;
  void* y;
  float *mean, *var;  // written by batch_norm, read by batch_norm_result
  void* workspace;
};
/// mean and var of these rows, and the result: 2 reads of x, 1 of residual, 1 write of y, so 3 or, with a residual, 4
/// rows channels elements of `type`, and the workspace twice; three kernels.
cudaError_t batch_norm(const BatchNormArgs& args, cudaStream_t stream);
/// The result by given mean and var, the same bits as batch_norm's: 1 read of x and residual, 1 write of y, so 2 or 3
/// rows channels elements; two kernels.
cudaError_t batch_norm_result(const BatchNormArgs& args, cudaStream_t stream);

struct BatchNormGradArgs {
  BatchNormShape shape;
  double eps;
  const void *x, *y, *dy;  // y nullptr: no ReLU
  const float *w, *mean, *var;
  void *dx, *dresidual;                     // dresidual nullptr: not wanted
  float *dw, *db, *batch_mean, *batch_var;  // the last: mean, and var rows / (rows - 1)
  void* workspace;
};
/// First pass: reads x, dy and y, writes dresidual. Second: reads x, dy and y (dresidual instead of these two, where
/// there is one), writes dx. In all 7 rows channels elements with ReLU, 5 without (with dresidual 7 and 6), and the
/// workspace twice; three kernels.
cudaError_t batch_norm_grad(const BatchNormGradArgs& args, cudaStream_t stream);

/// Bytes of workspace, 8-byte aligned, enough for any of them; written and read once. Small beside x where there are
/// many rows (0.5 % of 802,816 x 64 in bf16), a quarter of it at 8,192 x 256 in bf16.
size_t batch_norm_workspace(const BatchNormShape& shape);

}  // namespace ct::kernels
