// 3x3 convolutions of stride 1 by Winograd's algorithm F(4x4, 3x3) (Lavin & Gray, 2016): tiles of 6x6 pixels and the
// weights are transformed, so that 36 products of matrices give the transforms of 4x4 outputs: a quarter of the
// multiplications. f32, images NHWC, weights [out][3][3][in], channels multiples of kWinogradChannels.
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

/// y = conv(x, w) + b. `rotated`: w is that of the convolution whose input's gradient this is, [in][3][3][out], and its
/// taps are taken from the last to the first.
struct WinogradArgs {
  WinogradShape shape;
  const float *x, *w, *b;  // b nullptr: none
  float *y, *workspace;
  bool rotated;
};
void winograd(const WinogradArgs& args);
size_t winograd_workspace(const WinogradShape& shape);  // floats; 64-byte aligned

/// dw from x and dy.
struct WinogradGradWArgs {
  WinogradShape shape;
  const float *x, *dy;
  float *dw, *workspace;
};
void winograd_grad_weights(const WinogradGradWArgs& args);
size_t winograd_grad_weights_workspace(const WinogradShape& shape);

}  // namespace ct::cpu
