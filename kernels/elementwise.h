// Passes over elements that do not depend on their neighbours: activations and their gradients, sums of two, casts,
// fills, and the copy between row strides. Element types as named by `type`; arithmetic in f32, results rounded once,
// to nearest even.
//
// Dense operands of n elements, any alignment: with every pointer (and, for rows, every stride) a multiple of 16 bytes
// accesses are 16 bytes wide, else one element. Where it is said, the result may be one of the operands (the very same
// pointer); otherwise they must not overlap. Launchers enqueue in the stream and return; cudaErrorInvalidValue: a type,
// size or stride that makes no sense; n = 0 launches nothing. With e bytes an element:
//
//   activate         moves 2 n e        (reads x, writes y)
//   activation_grad  moves 3 n e
//   add              moves 3 n e
//   cast             moves n (e_from + e_to)
//   copy_rows        moves rows (features + y_stride) e
//   zero_pads        moves rows (stride - features) e  (writes)
#pragma once

#include "element.h"
#include "graph/activation.h"

namespace ct::kernels {

/// y = activation(x): x <= 0 ? 0 : x for ReLU, x Phi(x) for GELU, by erfcf(). NaN stays NaN; y may be x.
/// cudaErrorInvalidValue: Activation::none.
struct ActivateArgs {
  Type type;
  Activation activation;
  int64_t n;
  const void* x;
  void* y;
};
cudaError_t activate(const ActivateArgs& args, cudaStream_t stream);

/// dx = dy activation'(x); of ReLU x is the result: x <= 0 ? 0 : dy, so where it is NaN, dy passes. dx may be dy or x.
struct ActivationGradArgs {
  Type type;
  Activation activation;
  int64_t n;
  const void *x, *dy;
  void* dx;
};
cudaError_t activation_grad(const ActivationGradArgs& args, cudaStream_t stream);

/// y = a + b; y may be a or b.
struct AddArgs {
  Type type;
  int64_t n;
  const void *a, *b;
  void* y;
};
cudaError_t add(const AddArgs& args, cudaStream_t stream);

/// y = x in another element type: to nearest even, too large for f16 becomes infinite.
struct CastArgs {
  Type from, to;
  int64_t n;
  const void* x;
  void* y;
};
cudaError_t cast(const CastArgs& args, cudaStream_t stream);

/// y[row][i] = x[row][i] for i < features, and 0 for features <= i < y_stride: rank-2 rows are padded (tensor.h),
/// images are not. Bits are copied; x's pads are not read as values. Strides in elements, >= features.
struct CopyRowsArgs {
  Type type;
  int64_t rows, features, x_stride, y_stride;
  const void* x;
  void* y;
};
cudaError_t copy_rows(const CopyRowsArgs& args, cudaStream_t stream);

/// y[row][i] = 0 for features <= i < stride: the pads of rows that something else wrote. Without pads launches nothing.
struct ZeroPadsArgs {
  Type type;
  int64_t rows, features, stride;
  void* y;
};
cudaError_t zero_pads(const ZeroPadsArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
