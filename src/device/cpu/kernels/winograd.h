// 3x3 convolutions of stride 1 by Winograd's algorithm F(4x4, 3x3) (Lavin & Gray, 2016): 36 products of matrices, of
// transformed 6x6 tiles and transformed weights, give the transforms of 4x4 outputs with a quarter of the
// multiplications. Images NHWC, weights [out][3][3][in], channels multiples of kWinogradChannels. Images and weights
// are f32 or, as uint16_t, bf16; arithmetic is f32, so that bf16 only rounds the result.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ct::cpu {

inline constexpr int64_t kWinogradChannels = 32;

struct WinogradShape {
  int64_t n, height, width, in_channels, out_channels, pad;
  int64_t out_height() const { return height + 2 * pad - 2; }
  int64_t out_width() const { return width + 2 * pad - 2; }
};

/// y = conv(x, w) + b. `rotated`: for an input gradient. w is then the forward convolution's weights, [in][3][3][out],
/// with taps read from the last to the first.
template <class T>
struct WinogradArgs {
  WinogradShape shape;
  const T *x, *w;
  const float* b;  // nullptr: none
  T* y;
  float* workspace;
  bool rotated;
};
void winograd(const WinogradArgs<float>& args);
void winograd(const WinogradArgs<uint16_t>& args);
size_t winograd_workspace(const WinogradShape& shape);  // floats; 64-byte aligned

/// dw from x and dy.
template <class T>
struct WinogradGradWArgs {
  WinogradShape shape;
  const T *x, *dy;
  float *dw, *workspace;
};
void winograd_grad_weights(const WinogradGradWArgs<float>& args);
void winograd_grad_weights(const WinogradGradWArgs<uint16_t>& args);
size_t winograd_grad_weights_workspace(const WinogradShape& shape);

}  // namespace ct::cpu
