// Convolution (k x k, stride 1, no padding) + bias + ReLU + 2x2 max-pool as one operation, and its gradients.
//
//   y[n][py][px][o] = max(0, max over the window {2py,2py+1} x {2px,2px+1} of b[o] + sum w[o][ky][kx][i] * x[..])
//   argmax: place (0..3, row-major) of the window's first maximum, 4 where ReLU cut it (maximum <= 0).
//
// Only a window's argmax has a gradient: at most a quarter of the convolution's outputs. Backward reads only those.
// Layouts: x planar [N][C][H][W] (images) or NHWC; w, dw [out][kh][kw][in]; y, dy, argmax [N][PH][PW][out] with PH =
// (H-k+1)/2, PW = (W-k+1)/2 (an odd last row or column is dropped); dx NHWC. All float buffers 64-byte aligned. A
// planar x may be read up to 64 bytes past its end: pad it. Outputs are overwritten; dw and db are sums over the batch.
// An image costs 2*k*k*in*out*(H-k+1)*(W-k+1) flops forward, and a quarter of that for each gradient. Fast paths:
// planar 3x32x32 -> 6, k 5; NHWC 14x14x6 -> 16, k 5. For other shapes, vectors run along (kx, in).
#pragma once

#include <cstddef>
#include <cstdint>

namespace ct::cpu {

struct ConvPoolShape {
  int64_t n, in_channels, height, width, out_channels, kernel;
  bool planar;
  int64_t pooled_height() const { return (height - kernel + 1) / 2; }
  int64_t pooled_width() const { return (width - kernel + 1) / 2; }
};

struct ConvReluPoolArgs {
  ConvPoolShape shape;
  const float *x, *w, *b;
  float* y;
  uint8_t* argmax;
  float* workspace;
};
struct ConvReluPoolGradWArgs {
  ConvPoolShape shape;
  const float *x, *dy;
  const uint8_t* argmax;
  float *dw, *db;
  float* workspace;
};
struct ConvReluPoolGradXArgs {
  ConvPoolShape shape;
  const float *w, *dy;
  const uint8_t* argmax;
  float* dx;
  float* workspace;
};

/// Floats of workspace that the fast paths need.
constexpr size_t kFastPathWorkspace = 12 * 1024;

/// Floats of workspace (64-byte aligned), enough for each of the three functions; a call does not need its previous
/// contents.
size_t conv_relu_pool_workspace(const ConvPoolShape& shape);

void conv_relu_pool(const ConvReluPoolArgs& args);
void conv_relu_pool_grad_weights(const ConvReluPoolGradWArgs& args);
void conv_relu_pool_grad_input(const ConvReluPoolGradXArgs& args);

}  // namespace ct::cpu
