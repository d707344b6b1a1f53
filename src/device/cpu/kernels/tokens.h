// Sequences of tokens: a class token first, positions added to all tokens, and the gradients (ops.h's Tokens).
// Arithmetic is f32; uint16_t is bf16.
//
// Layouts: rows of y, dy [n][tokens][columns] and of positions, dpositions [tokens][columns] are padded to 16 elements
// (linear.h) with zeros; rows of x, dx [n][tokens - 1][columns] ([n][tokens][columns] without a class token) are
// x_stride apart. The forward pass reads x and writes y. The backward pass reads dy and writes dx and the gradients of
// parameters, each a sum over n rows in f32, image by image.
#pragma once

#include <cstdint>

namespace ct::cpu {

struct TokensShape {
  int64_t n, tokens, columns, x_stride;
};
template <class T>
struct TokensArgs {
  TokensShape shape;
  const T *x, *class_token, *positions;  // class_token nullptr: none
  T* y;
};
void tokens(const TokensArgs<float>& args);
void tokens(const TokensArgs<uint16_t>& args);

template <class T>
struct TokensGradArgs {
  TokensShape shape;
  const T* dy;
  T* dx;
  float *dclass_token, *dpositions;  // dclass_token nullptr: none
};
void tokens_grad(const TokensGradArgs<float>& args);
void tokens_grad(const TokensGradArgs<uint16_t>& args);

}  // namespace ct::cpu
