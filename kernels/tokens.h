// Sequences of tokens: an optional class token before the others, positions added to all, and their gradients. `type`
// is the element type; gradients of parameters and all arithmetic are f32.
//
// y, dy [n][tokens][stride] and positions, dpositions [tokens][stride] have rows of `columns` elements and then zeros,
// which are read and written. x, dx [n][tokens - 1][x_stride], or [n][tokens][x_stride] without a class token: elements
// beyond `columns` are written as zeros and not read. Accesses are 16 bytes wide if all pointers and both strides are
// multiples of 16 bytes (in elements of `type`) and the strides are equal, otherwise one element. Launchers enqueue in
// the stream and return. cudaErrorInvalidValue: an invalid type, size or stride, or 2^31 accesses or more of y (in a
// gradient: of positions). For e bytes per element, X rows of x and Y = n * tokens rows of y, launches move these
// numbers of bytes:
//
//   tokens       (X * columns + (Y + tokens + 1) * stride) * e
//   tokens_grad  (X * x_stride + Y * stride) * e + 4 * (tokens + 1) * stride
#pragma once

#include "element.h"

namespace ct::kernels {

/// y[n][0] = class_token + positions[0] (class_token null: none), y[n][t] = x[n][t'] + positions[t].
struct TokensArgs {
  Type type;
  int64_t n, tokens, columns, x_stride, stride;
  const void *x, *class_token, *positions;
  void* y;
};
cudaError_t tokens(const TokensArgs& args, cudaStream_t stream);

/// dx = dy, without row 0 if there is a class token (dclass_token not null); dpositions[t] = sum over n of dy[n][t]:
/// image i is added to lane i % 16, then lanes are added in order; dclass_token = dpositions[0].
struct TokensGradArgs {
  Type type;
  int64_t n, tokens, columns, x_stride, stride;
  const void* dy;
  void* dx;
  float *dclass_token, *dpositions;
};
cudaError_t tokens_grad(const TokensGradArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
