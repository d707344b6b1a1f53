// Plain layers of any shape: what runs where no library and no tuned kernel does. Vectors along channels.
//
// Layouts: activations NHWC; convolution weights [out][kh][kw][in]; outputs overwritten.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ct::cpu {

/// y = max(0, x), NaN stays NaN.
void relu(const float* x, float* y, int64_t n);
/// dx = y > 0 ? dy : 0 from the ReLU's output; dx may be dy.
void relu_grad(const float* y, const float* dy, float* dx, int64_t n);

/// size x size windows, stride = size, an incomplete last row or column of windows is dropped (and gets zero gradient).
/// winner (u8, so size <= 15): place of the window's first maximum, row-major.
struct MaxPoolShape {
  int64_t n, height, width, channels, size;
};
void max_pool(const MaxPoolShape& shape, const float* x, float* y, uint8_t* winner);
void max_pool_grad(const MaxPoolShape& shape, const float* dy, const uint8_t* winner, float* dx);

/// Square kernel, zero padding. x NHWC or (planar) NCHW; the input gradient is always NHWC.
struct ConvShape {
  int64_t n, in_channels, height, width, out_channels, kernel, stride, pad;
  bool planar;
  int64_t out_height() const { return (height + 2 * pad - kernel) / stride + 1; }
  int64_t out_width() const { return (width + 2 * pad - kernel) / stride + 1; }
};
struct ConvArgs {
  ConvShape shape;
  const float *x, *w, *b;  // b nullptr: no bias
  float *y, *workspace;
};
struct ConvGradWArgs {
  ConvShape shape;
  const float *x, *dy;
  float *dw, *db;  // db nullptr: no bias
  float* workspace;
};
struct ConvGradXArgs {
  ConvShape shape;
  const float *w, *dy;
  float* dx;
};
/// Floats of workspace for conv2d and conv2d_grad_weights: one image when planar, else none.
size_t conv2d_workspace(const ConvShape& shape);
void conv2d(const ConvArgs& args);
void conv2d_grad_weights(const ConvGradWArgs& args);
void conv2d_grad_input(const ConvGradXArgs& args);

}  // namespace ct::cpu
