// Convolution (kernel x kernel, stride 1, no padding) + bias + ReLU + 2x2 max-pool as one operation, and its gradients.
//
//   y[n][py][px][o] = max(0, max over the window {2py, 2py + 1} x {2px, 2px + 1} of b[o] + sum w[o][ky][kx][i] x[..])
//   argmax          = place (row * 2 + column) of the window's first maximum as `sum > best` finds it: a NaN wins from
//                     place 0, and only from there; 4 where ReLU cut it (maximum <= 0)
//   dw, db, dx      = gradients of sum(dy y), through argmax alone: what lies at other places is never multiplied, so
//                     that a NaN there stays there; any argmax > 3 lets nothing through
//
// x is planar [n][in][height][width] or NHWC; w [out][kernel][kernel][in]; y, dy, argmax [n][ph][pw][out] with ph =
// (height - kernel + 1) / 2 and pw likewise: an odd last row or column of the convolution is left out; dx NHWC. x, w,
// y, dy, dx of shape.type, b, dw, db f32; all dense, any alignment (x and w: 4 elements at a time where they are
// aligned to as many, and rows are whole numbers of them). Sums are f32, fused (__fmaf_rn), argmax those of f32: only
// y itself is rounded to the type.
//
// The order of every sum follows from the shape alone, never from the device or the alignment; no atomics:
//   y       S = min(in, 8) slices, input channel i in slice i % S: from 0, over i, ky, kx; then b + slice 0 + ...
//   dx      S = min(out, 16) slices, output channel o in slice o % S: from 0, over o and the windows by row, by column;
//           then slice 0 + slice 1 + ...; y and dx of an image do not depend on the other images
//   dw, db  windows are cut into parts, these into slices, both by the shape including n: from 0, over n, py, px; then
//           slices by a tree; parts in 32 lanes (part % 32), in order, and the lanes by a tree
//
// All run in the stream. cudaErrorInvalidValue: a type or size that makes no sense: n < 0, no channels, kernel not 1 to
// 15 or larger than the image, channels, height or width above 2^24, more than 2^30 windows or 2^31 - 1 blocks. Without
// windows y is empty, gradients are 0.
//
// Bytes, X, W, Y elements of x, w, y of e bytes each. What several blocks read comes from L2 but for the first time:
//   conv_relu_pool               (X + W + Y) e + 4 out + Y; rows of x that two tiles share, and w, once a block
//   conv_relu_pool_grad_weights  (X + Y) e + Y + 4 (W + out) (1 + 2 parts, where there is more than one)
//   conv_relu_pool_grad_input    (X + W + Y) e + Y
// Operations: 8 Y kernel^2 in forward (four sums a window), a quarter of it for each of the gradients.
#pragma once

#include "element.h"

namespace ct::kernels {

struct ConvReluPoolShape {
  int64_t n, in_channels, height, width, out_channels;
  int kernel;
  bool planar;  // x; dx is NHWC
  Type type;
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
/// Launches one kernel for few images, which need no workspace; else two.
cudaError_t conv_relu_pool_grad_weights(const ConvReluPoolGradWArgs& args, cudaStream_t stream);

/// Bytes of workspace, 0 where there is one part.
size_t conv_relu_pool_grad_weights_workspace(const ConvReluPoolShape& shape);

struct ConvReluPoolGradXArgs {
  ConvReluPoolShape shape;
  const void *w, *dy;
  const uint8_t* argmax;
  void* dx;  // all of it is written
};
/// Launches one kernel.
cudaError_t conv_relu_pool_grad_input(const ConvReluPoolGradXArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
