// GELU (Hendrycks & Gimpel, 2016) by the normal distribution function Phi, and its gradient.
//
// Phi(-|x|) = e^(-x^2/2) g(|x|), where g is a polynomial of degree 8 in 1 / (1 + 0.27 |x|) that was fitted for the
// least relative error, 2.4e-8, in [0, 13.3]; beyond, the product is 0. With rounding Phi is off by at most 8 (1 +
// x^2/2) 2^-24 of itself, which is the argument's rounding in e^(-x^2/2), and by 4e-7 at most. float, or bf16 as
// uint16_t.
#pragma once

#include <cstdint>

namespace ct::cpu {

/// y = x Phi(x); y may be x.
void gelu(const float* x, float* y, int64_t n);
void gelu(const uint16_t* x, uint16_t* y, int64_t n);

/// dx = dy (Phi(x) + x phi(x)), phi the normal density; dx may be dy.
void gelu_grad(const float* x, const float* dy, float* dx, int64_t n);
void gelu_grad(const uint16_t* x, const uint16_t* dy, uint16_t* dx, int64_t n);

}  // namespace ct::cpu
