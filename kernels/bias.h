// Bias of a layer and its gradient, for x [rows][channels] with a row stride in elements (>= channels). In NHWC images
// rows = pixels and stride = channels; rank-2 activations have padded rows (tensor.h). b and db are f32 [channels],
// activations have type `type`; arithmetic is f32.
//
// Accesses are 16 bytes wide if every pointer and the stride are multiples of 16 bytes, otherwise one element.
// Launchers enqueue in the stream and return. cudaErrorInvalidValue: an invalid type, size or stride. For e bytes per
// element, launches move these numbers of bytes:
//
//   bias       2 * rows * stride * e + 4 * channels  (reads x and b, writes y)
//   bias_grad  rows * channels * e (twice that if masked) + 4 * channels + 2 * bias_grad_workspace_bytes(...)
#pragma once

#include "element.h"

namespace ct::kernels {

/// y = x + b[channel], rounded to the type; `relu`: then y <= 0 ? 0 : y. y's pads are written as zeros. y may be x.
struct BiasArgs {
  Type type;
  int64_t rows, channels, stride;
  bool relu;
  const void* x;
  const float* b;
  void* y;
};
cudaError_t bias(const BiasArgs& args, cudaStream_t stream);

/// db[channel] = sum over rows of dy, or, with the ReLU's output y (null: none), of dy where not y <= 0.
///
/// The order of summation depends on rows alone, not on the device, the type or the alignment. Rows are cut into equal
/// parts (at most 1024, of at least 64 rows); row r of a part is added to lane r % 32, then lanes are added in order,
/// then parts in order.
struct BiasGradArgs {
  Type type;
  int64_t rows, channels, stride;
  const void *dy, *y;
  float* db;
  float* workspace;  // bias_grad_workspace_bytes(); null if that is 0
};
size_t bias_grad_workspace_bytes(int64_t rows, int64_t channels);
cudaError_t bias_grad(const BiasGradArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
