// Dispatch of rows to experts, combination of their results, and the other row operations of a mixture of experts.
// src/graph/ops.h has the formulas: Dispatch, Combine, CombineGradWeights, Jitter, SoftmaxMix.
//
// Rows have `stride` elements; pads of operands must be zero, and pads of results are written as zero. slots, sources
// and weights are dense; each expert has its own array of rows. One warp computes a row. Arithmetic is f32. Operands
// must not overlap, except in jitter. For e bytes per element and n = rows * stride, the numbers of bytes moved are,
// besides a few per row: dispatch experts * capacity * (4 + 2 * stride * e), combine (top_k + 1) * n * e,
// combine_grad_weights 2 * top_k * n * e, jitter 2 * n * e, softmax_mix 3 * n * e and its gradient 5 * n * e. Accesses
// are 16 bytes wide if every pointer and the rows' stride are multiples of 16 bytes, otherwise one element, as always
// in combine_grad_weights and in f32 in softmax_mix's gradient. cudaErrorInvalidValue: an invalid type or size.
#pragma once

#include "element.h"
#include "routing.h"

namespace ct::kernels {

struct ExpertsShape {
  Type type;
  int64_t rows, stride, experts, capacity;
  int top_k;
};

struct DispatchArgs {
  ExpertsShape shape;
  const void* x;
  const int32_t* sources;
  const float* weights;  // nullptr: 1
  void* to[kMostExperts];
};
cudaError_t dispatch(const DispatchArgs& args, cudaStream_t stream);

struct CombineArgs {
  ExpertsShape shape;
  const void* from[kMostExperts];
  const int32_t* slots;
  const float* weights;  // nullptr: 1
  void* y;
};
cudaError_t combine(const CombineArgs& args, cudaStream_t stream);

struct CombineGradWeightsArgs {
  ExpertsShape shape;
  const void* from[kMostExperts];
  const int32_t* slots;
  const void* dy;
  float* dweights;
};
cudaError_t combine_grad_weights(const CombineGradWeightsArgs& args, cudaStream_t stream);

/// n elements, dense.
struct JitterArgs {
  Type type;
  int64_t n;
  const DropoutKey* key;
  int number;
  const void* x;
  void* y;
};
cudaError_t jitter(const JitterArgs& args, cudaStream_t stream);

/// scores f32 [rows][2], `score_stride` apart.
struct SoftmaxMixArgs {
  Type type;
  int64_t rows, stride, score_stride;
  const void *a, *b;
  const float* scores;
  void* y;
};
cudaError_t softmax_mix(const SoftmaxMixArgs& args, cudaStream_t stream);

struct SoftmaxMixGradArgs {
  Type type;
  int64_t rows, stride, score_stride;
  const void *a, *b;
  const float* scores;
  const void* dy;
  void *da, *db;
  float* dscores;
};
cudaError_t softmax_mix_grad(const SoftmaxMixGradArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
