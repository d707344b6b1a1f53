// Pooling over NHWC images: max pooling, alone or after bias and ReLU (the last part of ConvReluPool in ops.h), global
// average pooling, and their gradients, as gathers without atomics. Activations have type `type`; arithmetic is f32.
//
// A window has kernel x kernel pixels, with kernel <= 15; neighbours are `stride` pixels apart. The first window begins
// `pad` pixels outside the image, with 2 * pad <= kernel. Windows that do not fit completely into the padded image are
// left out: a line of m pixels has (m + 2 * pad - kernel) / stride + 1 windows. y, dy and argmax are
// [n][windows][windows][channels]. argmax (u8) is the place, row * kernel + column, of the first maximum among those
// pixels of the window that are in the image, found by `x > best`: as on the CPU, a NaN wins only if it is the first of
// these pixels.
//
// Accesses are 16 bytes wide (argmax: the same number of elements) if every pointer and the channels are multiples of
// 16 bytes, otherwise one element. Launchers enqueue in the stream and return. cudaErrorInvalidValue: an invalid type,
// size or stride, or 2^31 accesses or more of y (in a gradient: of dx). For e bytes per element, P elements of y and X
// elements of the image, launches move these numbers of bytes:
//
//   max_pool           (X + P) * e + P  (overlapping windows are read from the caches)
//   max_pool_grad      (X + P) * e + P  (overlapping windows are read from the caches)
//   average_pool       (X + n * y_stride) * e
//   average_pool_grad  (X + n * channels) * e
#pragma once

#include "element.h"

namespace ct::kernels {

struct MaxPoolArgs {
  Type type;
  int64_t n, height, width, channels;
  int kernel, stride, pad;
  const void* x;
  void* y;
  uint8_t* argmax;
};
cudaError_t max_pool(const MaxPoolArgs& args, cudaStream_t stream);

/// dx [n][height][width][channels]: for each pixel the sum, in f32, of dy over the windows whose maximum it is, in
/// row-major order of windows. Every element is written once.
struct MaxPoolGradArgs {
  Type type;
  int64_t n, height, width, channels;
  int kernel, stride, pad;
  const void* dy;
  const uint8_t* argmax;
  void* dx;
};
cudaError_t max_pool_grad(const MaxPoolGradArgs& args, cudaStream_t stream);

/// y[n][channel] = mean over pixels of x[n][pixel][channel]: pixel p is added to lane p % 16, then lanes are added in
/// order, and the sum is multiplied by 1 / pixels. Rows of y have the stride y_stride >= channels; their pads are
/// written as zeros. pixels must be >= 1.
struct AveragePoolArgs {
  Type type;
  int64_t n, pixels, channels, y_stride;
  const void* x;
  void* y;
};
cudaError_t average_pool(const AveragePoolArgs& args, cudaStream_t stream);

/// dx[n][pixel][channel] = dy[n][channel] * (1 / pixels); dy's rows have stride dy_stride >= channels.
struct AveragePoolGradArgs {
  Type type;
  int64_t n, pixels, channels, dy_stride;
  const void* dy;
  void* dx;
};
cudaError_t average_pool_grad(const AveragePoolGradArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
