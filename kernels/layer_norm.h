// Layer normalisation of rows (Ba, Kiros & Hinton, 2016), a residual before it, and its gradients.
//
//   forward    sum = x + residual, rounded to the type; y = (sum - mean) rstd w + b, rstd = 1 / sqrt(var + eps),
//              var biased, of every row
//   gradient   with n = (x - mean) rstd and g = dy w: dx = dsum + rstd (g - mean of g - n mean of g n);
//              dw = sum over rows of dy n, db = sum over rows of dy
//
// x, residual, sum, y and their gradients [rows][columns], of `type`, `stride` elements from a row to the next: what
// lies between is written as zeros, and never matters where it is read. w, b, dw and db are f32 [columns], mean and
// rstd f32 [rows].
//
// With every pointer to rows aligned to 16 bytes and such a stride, accesses are 16 bytes wide, else one element; with
// V elements in 16 bytes, lane l of a warp adds the elements i with i / V % 32 == l in order, then lanes are added by
// halves, either way. dw and db: rows are cut into parts by their number alone, at most 512, of multiples of 32 rows; a
// part's are added in f32, 32 rows at a time, and parts in f64, part p to lane p % 8, then lanes in order.
//
// All run in the stream. cudaErrorInvalidValue: a type, size or stride that makes no sense.
#pragma once

#include "element.h"

namespace ct::kernels {

/// Moves 2 rows stride e, with a residual 4, for e bytes an element; one kernel.
struct LayerNormArgs {
  Type type;
  int64_t rows, columns, stride;
  double eps;
  const void *x, *residual;  // null: none, and no sum
  const float *w, *b;
  void *sum, *y;
  float *mean, *rstd;  // null: not wanted
};
cudaError_t layer_norm(const LayerNormArgs& args, cudaStream_t stream);

/// Moves 3 rows stride e, with dsum 4, and the workspace twice; x and dy come from the caches again. Two kernels.
struct LayerNormGradArgs {
  Type type;
  int64_t rows, columns, stride;
  const void *x, *dy, *dsum;  // dsum null: none
  const float *w, *mean, *rstd;
  void* dx;  // null: not wanted
  float *dw, *db;
  float* workspace;
};
cudaError_t layer_norm_grad(const LayerNormGradArgs& args, cudaStream_t stream);

/// Bytes of the gradient's workspace.
size_t layer_norm_grad_workspace(int64_t rows, int64_t columns);

}  // namespace ct::kernels
