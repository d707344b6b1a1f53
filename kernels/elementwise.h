// Elementwise passes: activations and their gradients, sums of two operands, casts, fills, and copies between row
// strides. `type` is the element type. Arithmetic is f32; results are rounded once, to nearest even.
//
// Operands are dense arrays of n elements with any alignment. Accesses are 16 bytes wide if every pointer (and, for
// rows, every stride) is a multiple of 16 bytes, otherwise one element. The result may be the same pointer as an
// operand only if the function states it; otherwise they must not overlap. Launchers enqueue in the stream and return;
// n = 0 launches nothing. cudaErrorInvalidValue: an invalid type, size or stride. For e bytes per element, launches
// move these numbers of bytes:
//
//   activate         2 * n * e        (reads x, writes y)
//   activation_grad  3 * n * e
//   add              3 * n * e
//   cast             n * (e_from + e_to)
//   copy_rows        rows * (features + y_stride) * e
//   zero_pads        rows * (stride - features) * e  (writes)
#pragma once

#include "element.h"
#include "graph/activation.h"

namespace ct::kernels {

/// y = activation(x): x <= 0 ? 0 : x for ReLU, x Phi(x) for GELU, with gelu.h's Phi. NaN stays NaN; y may be x.
/// cudaErrorInvalidValue: Activation::none.
struct ActivateArgs {
  Type type;
  Activation activation;
  int64_t n;
  const void* x;
  void* y;
};
cudaError_t activate(const ActivateArgs& args, cudaStream_t stream);

/// dx = dy activation'(x). For ReLU x is the result and dx = x <= 0 ? 0 : dy, so dy passes where x is NaN. dx may be dy
/// or x.
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

/// y = x in another element type, rounded to nearest even; values too large for f16 become infinite.
struct CastArgs {
  Type from, to;
  int64_t n;
  const void* x;
  void* y;
};
cudaError_t cast(const CastArgs& args, cudaStream_t stream);

/// y[row][i] = x[row][i] for i < features, and 0 for features <= i < y_stride: rank-2 rows are padded (tensor.h),
/// images are not. Bits are copied; the pads of x do not matter. Strides are in elements, >= features.
struct CopyRowsArgs {
  Type type;
  int64_t rows, features, x_stride, y_stride;
  const void* x;
  void* y;
};
cudaError_t copy_rows(const CopyRowsArgs& args, cudaStream_t stream);

/// y[row][i] = 0 for features <= i < stride: zeros the pads of rows that another kernel wrote. Launches nothing if
/// there are no pads.
struct ZeroPadsArgs {
  Type type;
  int64_t rows, features, stride;
  void* y;
};
cudaError_t zero_pads(const ZeroPadsArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
