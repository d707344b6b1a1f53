// The mean of an image's tokens, weighted by the softmax of their scores, and its gradient. Arithmetic is f32; uint16_t
// is bf16.
//
// Layouts: x, dx [n][tokens][channels]; y, dy [n][channels]; score, dscore [n][tokens][1]. Rows are padded to 16
// elements, and pads are written as zeros. All are 64-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ct::cpu {

struct SequencePoolShape {
  int64_t n, tokens, channels;
};
/// Floats of workspace: an image's weights, and a row of y or dy.
size_t sequence_pool_workspace(const SequencePoolShape& shape);

/// y = sum over tokens of p[t] * x[t], p = softmax(score).
template <class T>
struct SequencePoolArgs {
  SequencePoolShape shape;
  const T *x, *score;
  T* y;
  float* workspace;
};
void sequence_pool(const SequencePoolArgs<float>& args);
void sequence_pool(const SequencePoolArgs<uint16_t>& args);

/// dx[t] = p[t] * dy; dscore[t] = p[t] * (g[t] - sum of p * g), g[t] = x[t] . dy.
template <class T>
struct SequencePoolGradArgs {
  SequencePoolShape shape;
  const T *x, *score, *dy;
  T *dx, *dscore;
  float* workspace;
};
void sequence_pool_grad(const SequencePoolGradArgs<float>& args);
void sequence_pool_grad(const SequencePoolGradArgs<uint16_t>& args);

}  // namespace ct::cpu
