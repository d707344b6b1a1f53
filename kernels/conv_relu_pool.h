// Convolution (kernel x kernel, stride 1, no padding) + bias + ReLU + 2x2 max pooling as one operation, and its
// gradients.
//
//   y[n][py][px][o] = max(0, max over the window {2py, 2py + 1} x {2px, 2px + 1} of b[o] + sum w[o][ky][kx][i] x[..])
//   argmax          = place (row * 2 + column) of the window's first maximum by `sum > best`, so a NaN wins only
//                     at place 0; 4 if ReLU clips it (maximum <= 0)
//   dw, db, dx      = gradients of sum(dy y) through argmax alone: values at other places are never multiplied, so a
//                     NaN there does not spread; an argmax > 3 gives no gradient
//
// x is planar [n][in][height][width] or NHWC; w [out][kernel][kernel][in]; y, dy, argmax [n][ph][pw][out] with ph =
// (height - kernel + 1) / 2 and pw = (width - kernel + 1) / 2: an odd last row or column of the convolution is left
// out; dx NHWC. x, w, y, dy, dx have shape.type; b, dw, db are f32. All operands are dense with any alignment; x and w
// are read 4 elements at a time if they are aligned to 4 elements and rows are multiples of 4. Sums are f32 and fused
// (__fmaf_rn), and argmax compares f32 sums; only y is rounded to the type.
//
// The order of every sum depends on the shape alone, not on the device or the alignment; there are no atomics:
//   y       S = min(in, 8) slices, input channel i in slice i % S: from 0, over i, ky, kx; then b + slice 0 + ...
//   dx      S = min(out, 16) slices, output channel o in slice o % S: from 0, over o and the windows by row, by column;
//           then slice 0 + slice 1 + ...; y and dx of an image do not depend on the other images
//   dw, db  windows are cut into parts, these into slices, both by the shape including n: from 0, over n, py, px; then
//           slices by a tree; parts in 32 lanes (part % 32), in order, and the lanes by a tree
//
// All functions run in the stream. cudaErrorInvalidValue: an invalid type or size: n < 0, no channels, kernel outside 1
// to 15 or larger than the image, channels, height or width above 2^24, more than 2^30 windows or 2^31 - 1 blocks.
// Without windows y is empty and gradients are 0.
//
// Bytes moved, for X, W, Y elements of x, w, y of e bytes each. Repeated reads by several blocks come from L2:
//   conv_relu_pool               (X + W + Y) * e + 4 * out + Y; each block reads w and the rows of x that tiles share
//   conv_relu_pool_grad_weights  (X + Y) * e + Y + 4 * (W + out) * (1, or 1 + 2 * parts if there are several parts)
//   conv_relu_pool_grad_input    (X + W + Y) * e + Y
// Multiply-adds: 4 * Y * in * kernel^2 in the forward pass (four sums per window), a quarter of that for each gradient.
#pragma once

#include "element.h"

namespace ct::kernels {

struct ConvReluPoolShape {
  int64_t n, in_channels, height, width, out_channels;
  int kernel;
  bool planar;  // x; dx is NHWC
  Type type;
  bool operator==(const ConvReluPoolShape&) const = default;
  __host__ __device__ int64_t pooled_height() const { return (height - kernel + 1) / 2; }
  __host__ __device__ int64_t pooled_width() const { return (width - kernel + 1) / 2; }
};

struct ConvReluPoolArgs {
  ConvReluPoolShape shape;
  const void *x, *w;
  const float* b;
  void* y;
  uint8_t* argmax;
};
/// Launches one kernel.
cudaError_t conv_relu_pool(const ConvReluPoolArgs& args, cudaStream_t stream);

struct ConvReluPoolGradWArgs {
  ConvReluPoolShape shape;
  const void *x, *dy;
  const uint8_t* argmax;
  float *dw, *db;   // overwritten
  void* workspace;  // 4-byte aligned; its contents need not survive between calls
};
/// Launches one kernel for few images, which need no workspace, otherwise two.
cudaError_t conv_relu_pool_grad_weights(const ConvReluPoolGradWArgs& args, cudaStream_t stream);

/// Bytes of the workspace; 0 if there is one part.
size_t conv_relu_pool_grad_weights_workspace(const ConvReluPoolShape& shape);

struct ConvReluPoolGradXArgs {
  ConvReluPoolShape shape;
  const void *w, *dy;
  const uint8_t* argmax;
  void* dx;  // every element is written
};
/// Launches one kernel.
cudaError_t conv_relu_pool_grad_input(const ConvReluPoolGradXArgs& args, cudaStream_t stream);

/// Both gradients of one layer, with the same bits as by a launch each.
struct ConvReluPoolGradArgs {
  ConvReluPoolGradWArgs weights;
  ConvReluPoolGradXArgs input;  // of the same shape
};
/// Launches one kernel. cudaErrorInvalidValue also if the gradient of the weights needs a workspace: these are too many
/// images to gain from it.
cudaError_t conv_relu_pool_grad(const ConvReluPoolGradArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
