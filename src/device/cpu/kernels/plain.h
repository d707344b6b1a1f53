// Layers of any shape, for shapes without a library or a tuned kernel. Vectors run along channels.
//
// Layouts: activations NHWC; convolution weights [out][kh][kw][in]; outputs overwritten. uint16_t is bf16, read as
// float; results are rounded to nearest even.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ct::cpu {

/// y = a + b; y may be a or b.
void add(const float* a, const float* b, float* y, int64_t n);
void add(const uint16_t* a, const uint16_t* b, uint16_t* y, int64_t n);

/// Conversions between element types.
void convert(const float* x, uint16_t* y, int64_t n);
void convert(const uint16_t* x, float* y, int64_t n);
/// The conversion to f16, as in base/half.h. Only a GPU computes in f16.
void convert_to_f16(const float* x, uint16_t* y, int64_t n);

/// y[n][c] = mean over pixels of x[n][pixel][c]; rows of y have stride padded(channels) (linear.h), pads zero.
struct AveragePoolShape {
  int64_t n, pixels, channels;
};
void average_pool(const AveragePoolShape& shape, const float* x, float* y);
void average_pool(const AveragePoolShape& shape, const uint16_t* x, uint16_t* y);
void average_pool_grad(const AveragePoolShape& shape, const float* dy, float* dx);
void average_pool_grad(const AveragePoolShape& shape, const uint16_t* dy, uint16_t* dx);

/// Dimensions of a convolution with a square kernel and zero padding; x is [n][in_channels][in_h][in_w] when planar,
/// else [n][in_h][in_w][in_channels].
struct ConvDims {
  int64_t n, in_h, in_w, in_channels, out_h, out_w, out_channels, kernel, stride, pad;
  bool planar;
};
/// The input gradient is never planar.
struct ConvArgs {
  ConvDims dims;
  const float *x, *w, *b;  // b nullptr: no bias
  float *y, *workspace;
};
struct ConvGradWArgs {
  ConvDims dims;
  const float *x, *dy;
  float *dw, *db;  // db nullptr: no bias
  float* workspace;
};
struct ConvGradXArgs {
  ConvDims dims;
  const float *w, *dy;
  float* dx;
};
/// Floats of workspace for conv2d and conv2d_grad_weights: one image when planar, else none.
size_t conv2d_workspace(const ConvDims& dims);
void conv2d(const ConvArgs& args);
void conv2d_grad_weights(const ConvGradWArgs& args);
void conv2d_grad_input(const ConvGradXArgs& args);

}  // namespace ct::cpu
