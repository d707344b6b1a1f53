// Attention (Vaswani et al., 2017) and its gradient. A block computes one tile of tokens of one image and head, and
// loads the other tiles one after another into shared memory. The matrix of tokens x tokens is never stored.
//
//   attention       y_i = sum_j p_ij v_j, p_i = softmax(logits_i), logits_ij = scale q_i . k_j
//   attention_grad  dv, dk, dq, and the gradient of the temperature t if scale = exp(t); p is recomputed
//
// qkv, dqkv [n][tokens][3 heads width]: queries, then keys, then values, each [heads][width]; y, dy [n][tokens][heads
// width]. Row strides are in elements, at least the row's length; pads are written as zeros. log_sum_exp
// [n][heads][tokens] of the logits is f32. With mask_diagonal no token attends to itself; this requires at least two
// tokens.
//
// bf16 and f16 with heads of up to 128: all products run on tensor cores (mma.h), as in FlashAttention (Dao, 2023).
// Sums are f32, and so is everything between products; exp(logit - largest logit so far), p and dp's part of it, the
// gradient of a logit, are rounded to the type before they are multiplied by v, dy, k and q. So in f16 a logit's
// gradient beyond 65504 is infinite. In all other cases arithmetic is f32, and each product is added by one __fmaf_rn.
// Sums are in the order of tokens or columns, on tensor cores sixteen at a time.
//
// Operands may have any alignment, with the same results; accesses on tensor cores' path are 16 bytes wide if all
// pointers are aligned to 16 bytes, and width and strides are multiples of 8. cudaErrorInvalidValue: an invalid type,
// size or stride, or heads wider than 512.
#pragma once

#include "element.h"

namespace ct::kernels {

constexpr int64_t kMostAttentionWidth = 512;  // of a head

struct AttentionShape {
  Type type;
  int64_t n, tokens, heads, width;
  bool mask_diagonal;
  int64_t qkv_stride, y_stride;
};

/// Reads queries once, and keys and values once per tile of tokens. On tensor cores a tile has up to 80 tokens for
/// heads of up to 64, else 32, and tiles are about equal; in f32 it has 32 tokens for heads of up to 64, and fewer for
/// others.
struct AttentionArgs {
  AttentionShape shape;
  const void* qkv;
  float scale;
  const float* temperature;  // t: scale = exp(t); null: none
  void* y;
  float* log_sum_exp;  // null: not written
};
cudaError_t attention(const AttentionArgs& args, cudaStream_t stream);

/// With one tile on tensor cores it reads everything once. Otherwise one kernel reads queries and dy once, and keys and
/// values twice per tile; another reads keys and values once, and queries and dy once per tile.
struct AttentionGradArgs {
  AttentionShape shape;
  const void* qkv;
  float scale;
  const float *temperature, *log_sum_exp;
  const void* dy;
  void* dqkv;
  float* dtemperature;  // null: not written
  float* workspace;
};
size_t attention_grad_workspace_bytes(const AttentionShape& shape);
cudaError_t attention_grad(const AttentionGradArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
