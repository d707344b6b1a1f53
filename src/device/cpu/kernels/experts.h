// The row operations of a mixture of experts: dispatch, combine, jitter, residual mix (graph/ops.h). Arithmetic is f32;
// uint16_t is bf16.
//
// Layouts: rows of `columns` elements, padded to 16; pads are zero in operands and results. slots, sources and weights
// are dense. All are 64-byte aligned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "graph/routing_draws.h"

namespace ct::cpu {

struct ExpertsShape {
  int64_t rows, columns, experts, capacity;
  int top_k;
};
template <class T>
using PerExpert = std::array<T*, kMostExperts>;

/// to[e][place] = x[row] (* weights[choice]) of the choice in sources; zeros for an empty place.
template <class T>
struct DispatchArgs {
  ExpertsShape shape;
  const T* x;
  const int32_t* sources;
  const float* weights;  // null: 1
  PerExpert<T> to;
};
void dispatch(const DispatchArgs<float>& args);
void dispatch(const DispatchArgs<uint16_t>& args);

/// y[row] = sum over its choices of (weights[choice] *) the row of from[e] in its slot.
template <class T>
struct CombineArgs {
  ExpertsShape shape;
  PerExpert<const T> from;
  const int32_t* slots;
  const float* weights;  // null: 1
  T* y;
};
void combine(const CombineArgs<float>& args);
void combine(const CombineArgs<uint16_t>& args);

/// dweights[choice] = the row of from[e] in its slot times dy[row]; dropped: 0.
template <class T>
struct CombineGradWeightsArgs {
  ExpertsShape shape;
  PerExpert<const T> from;
  const int32_t* slots;
  const T* dy;
  float* dweights;
};
void combine_grad_weights(const CombineGradWeightsArgs<float>& args);
void combine_grad_weights(const CombineGradWeightsArgs<uint16_t>& args);

/// y = x times a random factor, over n elements.
template <class T>
struct JitterArgs {
  int64_t n;
  const DropoutKey* key;
  int number;
  const T* x;
  T* y;
};
void jitter(const JitterArgs<float>& args);
void jitter(const JitterArgs<uint16_t>& args);

/// y = c[0] a + c[1] b with c the softmax of scores f32 [rows][2], padded to 16.
template <class T>
struct SoftmaxMixArgs {
  int64_t rows, columns;
  const T *a, *b;
  const float* scores;
  T* y;
};
void softmax_mix(const SoftmaxMixArgs<float>& args);
void softmax_mix(const SoftmaxMixArgs<uint16_t>& args);

/// da = c[0] dy, db = c[1] dy; dscores[0] = c[0] c[1] dy (a - b) = -dscores[1].
template <class T>
struct SoftmaxMixGradArgs {
  int64_t rows, columns;
  const T *a, *b;
  const float* scores;
  const T* dy;
  T *da, *db;
  float* dscores;
};
void softmax_mix_grad(const SoftmaxMixGradArgs<float>& args);
void softmax_mix_grad(const SoftmaxMixGradArgs<uint16_t>& args);

}  // namespace ct::cpu
