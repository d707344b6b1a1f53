// The mean of an image's tokens, weighted by the softmax of their scores, and its gradient. One block computes an
// image.
//
//   sequence_pool       y = sum over t of p[t] x[t], p = softmax(score)
//   sequence_pool_grad  dx[t] = p[t] dy, dscore[t] = p[t] (g[t] - sum of p g), g[t] = x[t] . dy
//
// x, dx [n][tokens][channels] and y, dy [n][channels] have rows of `stride` elements; score, dscore [n][tokens] have
// rows of `score_stride` elements, of which the first is the score. Pads are written as zeros. Arithmetic is f32. For e
// bytes per element, sequence_pool moves n * tokens * stride * e bytes, its gradient twice as much. If the pointers of
// rows and `stride` are multiples of 16 bytes, sequence_pool accesses four elements at a time, and its gradient in a
// 16-bit type accesses 16 bytes at a time; otherwise each access is one element. cudaErrorInvalidValue: an invalid
// type, size or stride, or more than 4096 tokens.
#pragma once

#include "element.h"

namespace ct::kernels {

constexpr int64_t kMostPooledTokens = 4096;

struct SequencePoolShape {
  Type type;
  int64_t n, tokens, channels, stride, score_stride;
};
struct SequencePoolArgs {
  SequencePoolShape shape;
  const void *x, *score;
  void* y;
};
cudaError_t sequence_pool(const SequencePoolArgs& args, cudaStream_t stream);

struct SequencePoolGradArgs {
  SequencePoolShape shape;
  const void *x, *score, *dy;
  void *dx, *dscore;
};
cudaError_t sequence_pool_grad(const SequencePoolGradArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
