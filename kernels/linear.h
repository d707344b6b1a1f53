// The matrix products of linear layers, for small batches: most reads are weights, and a launch has many blocks even
// for four images. Larger batches are correct too, but from some hundreds of rows on the products of a library are
// faster.
//
//   linear               y[n][o]  = sum_i x[n][i] w[o][i] + b[o], with `relu` then y <= 0 ? 0 : y
//   linear_grad_input    dx[n][i] = sum_o dy[n][o] w[o][i]
//   linear_grad_weights  dw[o][i] = sum_n dy[n][o] x[n][i],  db[o] = sum_n dy[n][o]
//   linear_grad          both, with the gradient of a ReLU before the layer
//   linear_loss          linear, and the loss of its result (softmax_cross_entropy.h)
//
// x, dx [n][in]; w, dw [out][in]; y, dy [n][out]; b, db [out]. Row strides are in elements, at least the row's length.
// x, w and dx are of `type`, y and dy of `y_type`, which is `type` or f32 (logits and their gradient); b, dw and db are
// f32. Pads of rows, also of dw, are written as zeros; their values do not matter when read.
//
// With V = 16 bytes / size of `type`, the wide operands (linear: x, w; linear_grad_input: w, dx; linear_grad_weights:
// x, dw) are accessed 16 bytes at a time if they are aligned to 16 bytes and their strides are multiples of V,
// otherwise element by element. y, dy, b and db are accessed element by element.
//
// The order of summation depends on the shape and the type alone, so neither device nor alignment changes a bit. Each
// product is added by one __fmaf_rn.
// - linear: lane l of 32 starts with 0 and adds the products of i with i / V % 32 == l in order; lanes l and l + 16 are
//   added, then l and l + 8, and so on; then b. A row of y depends on no other row of x.
// - The gradients: with K terms (linear_grad_input: out; linear_grad_weights: n) there are L = 1 lanes if K <= 8, 8 if
//   K <= 64, else 32; lane l starts with 0 and adds the terms k with k % L == l in order; lanes are added in order. db
//   is added in the same way, without products.
//
// All functions run in the stream. cudaErrorInvalidValue: an invalid type, size or stride, more than 2^30 elements a
// row, or more than 2^31 blocks.
#pragma once

#include "softmax_cross_entropy.h"

namespace ct::kernels {

/// The forward pass. It moves (n + out) * in * e + 4 * out + n * y_stride * e_y bytes, for e and e_y bytes per element
/// of `type` and `y_type`; repeated reads come from the caches: w for every four images, x for every output (for every
/// four in a large launch).
struct LinearArgs {
  Type type, y_type;
  int64_t n, in, out;
  int64_t x_stride, w_stride, y_stride;
  bool relu;
  const void *x, *w;
  const float* b;  // null: no bias
  void* y;
};
cudaError_t linear(const LinearArgs& args, cudaStream_t stream);

/// linear, and softmax_cross_entropy of its result, in one launch with the same bits: the last block computes the loss.
/// Its bytes are the sum of theirs. cudaErrorInvalidValue also: more than kLossRows rows or kLossClasses outputs,
/// y_type other than f32, or a loss of other logits.
constexpr int kLossRows = 8, kLossClasses = 128;
struct LinearLossArgs {
  LinearArgs linear;
  SoftmaxCrossEntropyArgs loss;  // of linear.y; with tickets
};
cudaError_t linear_loss(const LinearLossArgs& args, cudaStream_t stream);

/// Moves out * in * e + n * out * e_y + n * dx_stride * e bytes; repeated reads come from the caches: w for every four
/// images, dy for every block's share of a row of dx, 16 bytes or more.
struct LinearGradXArgs {
  Type type, y_type;
  int64_t n, in, out;
  int64_t w_stride, dy_stride, dx_stride;
  const void *w, *dy;
  void* dx;
};
cudaError_t linear_grad_input(const LinearGradXArgs& args, cudaStream_t stream);

/// Moves n * in * e + n * out * e_y + 4 * out * (dw_stride + 1) bytes; repeated reads come from the caches: x for every
/// four outputs, dy for every block's share of a row of x, 16 bytes or more. n = 0 gives zeros.
struct LinearGradWArgs {
  Type type, y_type;
  int64_t n, in, out;
  int64_t x_stride, dy_stride, dw_stride;
  const void *x, *dy;
  float *dw, *db;  // db null: not written
};
cudaError_t linear_grad_weights(const LinearGradWArgs& args, cudaStream_t stream);

/// Both gradients of one layer in one launch, and, if x is the result of a ReLU, the gradient before it: dz[n][i] =
/// x[n][i] <= 0 ? 0 : dx[n][i], with the stride of dx. The same bits as by a launch each, and the sum of their bytes.
struct LinearGradArgs {
  LinearGradWArgs weights;
  LinearGradXArgs input;  // of the same types, n, in and out
  void* dz = nullptr;     // null: not written
};
cudaError_t linear_grad(const LinearGradArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
