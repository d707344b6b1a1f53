// Layer normalisation of rows (Ba, Kiros & Hinton, 2016) with an optional residual before it, and its gradients.
//
//   forward    sum = dropout(x) + residual, rounded to the type; y = (sum - mean) rstd w + b, rstd = 1 / sqrt(var +
//   eps),
//              var biased, of every row
//   gradient   with n = (x - mean) rstd and g = dy w: dx = dsum + rstd (g - mean of g - n mean of g n);
//              dw = sum over rows of dy n, db = sum over rows of dy
//
// x, residual, sum, y and their gradients are [rows][columns] of `type`, with a row stride of `stride` elements. Pads
// are written as zeros, and their values do not matter when read. w, b, dw and db are f32 [columns], mean and rstd f32
// [rows].
//
// Accesses are 16 bytes wide if every pointer to rows and the stride are multiples of 16 bytes, otherwise one element.
// Rows without pads, with w and b aligned to 16 bytes too, are the fastest. Rows of up to 1,024 elements stay in
// registers; longer ones are read again from the caches.
// In all cases, with V elements in 16 bytes, lane l of a warp adds the elements i with i / V % 32 == l in order, then
// lanes are added by halves. For dw and db, the numbers of rows and columns alone determine the parts: one for every 32
// rows, but at most 396, with more than 256 columns 264, with more than 1,024 columns 528. Of g = ceil(rows / 8) groups
// of 8 rows, part p of n has those from p g / n to (p + 1) g / n, rounded down. A part is added in f32: up to 1024
// columns by eight warps, warp w the rows w, w + 8, ..., then the warps in order; else 32 rows at a time. Parts are
// added in f64, part p to lane p % 32, then lanes in order.
//
// All functions run in the stream. cudaErrorInvalidValue: an invalid type, size or stride.
#pragma once

#include "dropout.h"
#include "element.h"

namespace ct::kernels {

/// May the kernels below drop elements too? They are rows that registers hold, without pads, of whole groups of the
/// mask. All pointers that they get must be aligned to 16 bytes then.
bool drops_elements(Type type, int64_t columns, int64_t stride);

/// Moves 2 rows stride e (with a residual 4), for e bytes an element. One kernel. With a mask x is dropped first, as by
/// dropout() and rounded as it rounds: 2 rows stride e less than with a kernel for each. cudaErrorInvalidValue: a mask
/// without a residual or not for such rows.
struct LayerNormArgs {
  Type type;
  int64_t rows, columns, stride;
  double eps;
  const void *x, *residual;  // null: none, and no sum
  const float *w, *b;
  void *sum, *y;
  float *mean, *rstd;  // null: not written
  DropoutMask mask = {};
};
cudaError_t layer_norm(const LayerNormArgs& args, cudaStream_t stream);

/// Moves 3 rows stride e (with dsum 4, with a mask 1 more), and the workspace twice; with more than 1024 columns x and
/// dy are read again, from the caches. Two kernels. With a mask `dropped` is dx as dropout() leaves it, which would
/// move 1 rows stride e more in a kernel of its own. cudaErrorInvalidValue: a mask without dx and dsum, or not for such
/// rows.
struct LayerNormGradArgs {
  Type type;
  int64_t rows, columns, stride;
  const void *x, *dy, *dsum;  // dsum null: none
  const float *w, *mean, *rstd;
  void* dx;  // null: not written
  float *dw, *db;
  float* workspace;
  DropoutMask mask = {};
  void* dropped = nullptr;  // with a mask
};
cudaError_t layer_norm_grad(const LayerNormGradArgs& args, cudaStream_t stream);

/// Bytes of the gradient's workspace.
size_t layer_norm_grad_workspace(int64_t rows, int64_t columns);

}  // namespace ct::kernels
