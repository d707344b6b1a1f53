// Attention of tokens to each other (Vaswani et al., 2017) and its gradient: a block for a tile of tokens of one image
// and head, which meets the other tiles one after the other in shared memory. No matrix of tokens x tokens.
//
//   attention       y_i = sum_j p_ij v_j, p_i = softmax(logits_i), logits_ij = scale q_i . k_j
//   attention_grad  dv, dk, dq, and of a temperature t, scale = exp(t), its gradient; p is computed again
//
// qkv, dqkv [n][tokens][3 heads width]: queries, keys, values one after the other, heads inside; y, dy
// [n][tokens][heads width]; row strides in elements, at least the row's length, whose pads are written as zeros.
// log_sum_exp [n][heads][tokens] of the logits, f32. mask_diagonal: no token attends to itself; two tokens at least.
//
// Arithmetic in f32, every product is added by one __fmaf_rn, in the order of tokens or columns. Any alignment.
// cudaErrorInvalidValue: a type, size or stride that makes no sense, and heads wider than 512.
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

/// Reads queries once, keys and values once a tile of tokens, which is 32 for heads of up to 64.
struct AttentionArgs {
  AttentionShape shape;
  const void* qkv;
  float scale;
  const float* temperature;  // its exponential takes the scale's place; null: none
  void* y;
  float* log_sum_exp;  // null: not wanted
};
cudaError_t attention(const AttentionArgs& args, cudaStream_t stream);

struct AttentionGradArgs {
  AttentionShape shape;
  const void* qkv;
  float scale;
  const float *temperature, *log_sum_exp;
  const void* dy;
  void* dqkv;
  float* dtemperature;  // null: not wanted
  float* workspace;
};
size_t attention_grad_workspace_bytes(const AttentionShape& shape);
cudaError_t attention_grad(const AttentionGradArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
