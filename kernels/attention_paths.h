// The two ways to compute attention (attention.h), on tensor cores and in f32, and what both of them need. Arguments
// are checked by attention.h's functions.
#pragma once

#include "attention.h"
#include "launch.h"

namespace ct::kernels {

/// Tiles of tokens that each head of an image has.
int64_t tensor_core_tiles(const AttentionShape& s);
int64_t f32_tiles(const AttentionShape& s);

cudaError_t attention_on_tensor_cores(const AttentionArgs& a, cudaStream_t stream);
cudaError_t attention_in_f32(const AttentionArgs& a, cudaStream_t stream);

/// `sums` [n][heads][tokens] is scratch memory; `parts` [n][heads][tiles], unless null, are of the temperature's
/// gradient.
cudaError_t attention_grad_on_tensor_cores(const AttentionGradArgs& a, float* sums, float* parts, cudaStream_t stream);
cudaError_t attention_grad_in_f32(const AttentionGradArgs& a, float* sums, float* parts, cudaStream_t stream);

/// Which image, head and tile a block works on.
struct Place {
  int64_t image, head;
  int tile;
};
__device__ __forceinline__ Place place_of_block(const AttentionShape& s, int tiles) {
  const int64_t block = blockIdx.x;
  return {block / tiles / s.heads, block / tiles % s.heads, static_cast<int>(block % tiles)};
}

__device__ __forceinline__ float scale_of(float scale, const float* temperature) {
  return temperature == nullptr ? scale : expf(*temperature);
}

/// Zeros behind the columns of a tile's rows.
template <class T>
__device__ __forceinline__ void zero_pads(const AttentionShape& s, T* to, int rows, int64_t first, int64_t columns,
                                          int64_t stride) {
  const int pads = static_cast<int>(stride - columns);
  for (int at = static_cast<int>(threadIdx.x); at < rows * pads; at += static_cast<int>(blockDim.x))
    if (first + at / pads < s.tokens) to[(first + at / pads) * stride + columns + at % pads] = from_float<T>(0);
}

/// A number as a type, for a kernel's template.
template <int N>
struct Number {
  static constexpr int value = N;
};

}  // namespace ct::kernels
