// Bias of a layer and its gradient, over x [rows][channels] with a row stride in elements (>= channels): images NHWC
// have rows = pixels and stride = channels, rank-2 activations have padded rows (tensor.h). b and db are f32
// [channels], activations of type `type`; arithmetic in f32.
//
// With every pointer and the stride a multiple of 16 bytes accesses are 16 bytes wide, else one element. Launchers
// enqueue in the stream and return; cudaErrorInvalidValue: a type, size or stride that makes no sense. With e bytes an
// element:
//
//   bias       moves 2 rows stride e + 4 channels          (reads x and b, writes y)
//   bias_grad  moves rows channels e (twice if masked) + 4 channels, and 2 bias_grad_workspace_bytes() of partial sums
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

/// db[channel] = sum over rows of dy, or, with the ReLU's output y (null: none), of dy where not y <= 0. With the
/// pooled dy and y of relu_pool (pool.h) this is the gradient of its bias, too.
///
/// One order of summation, fixed by rows alone: neither the device, nor the type's width nor alignment changes a bit of
/// it. Rows are cut into equal parts (at most 1024, of at least 64 rows); a part's row r is added to lane r % 32, lanes
/// are added in order, then parts likewise.
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
