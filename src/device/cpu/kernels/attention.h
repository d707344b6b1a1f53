// Self-attention and its gradient, for one image and head after another. Elements in memory are f32 or bf16 (uint16_t);
// arithmetic is in f32.
//
// Layouts: qkv, dqkv [n][tokens][3*heads*width], in a row first queries, then keys, then values, each [heads][width];
// y, dy [n][tokens][heads*width]. Rows are padded to 16 elements; pads are written as zeros. log_sum_exp is
// [n][heads][tokens]. All are 64-byte aligned; the cache line after the end of qkv and dy may be read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ct::cpu {

struct AttentionShape {
  int64_t n, tokens, heads, width;
  bool mask_diagonal;  // no token attends to itself
};

template <class T>
struct AttentionArgs {
  AttentionShape shape;
  const T* qkv;
  float scale;               // of logits, unless temperature is given
  const float* temperature;  // the logarithm of the scale; nullptr: `scale`
  T* y;
  float* log_sum_exp;  // nullptr: not written
  float* workspace;
};
/// Floats of workspace.
size_t attention_workspace(const AttentionShape& shape);
void attention(const AttentionArgs<float>& args);
void attention(const AttentionArgs<uint16_t>& args);

template <class T>
struct AttentionGradArgs {
  AttentionShape shape;
  const T* qkv;
  float scale;
  const float *temperature, *log_sum_exp;
  const T* dy;
  T* dqkv;
  float* dtemperature;  // nullptr: not computed
  float* workspace;
};
size_t attention_grad_workspace(const AttentionShape& shape);
void attention_grad(const AttentionGradArgs<float>& args);
void attention_grad(const AttentionGradArgs<uint16_t>& args);

}  // namespace ct::cpu
