// GELU (Hendrycks & Gimpel, 2016) by the normal distribution function Phi, and its gradient.
//
// Phi and the gradient's factor are 1/2 and an odd function each: x times a polynomial in x^2 that was fitted for the
// least error, with x held to where the rest is less. Phi is off by at most 4e-7 (f32's own steps are 6e-8 near 1), and
// 0 below -5.2; the factor by at most 5e-7. float, or bf16 as uint16_t.
#pragma once

#include <cstdint>

namespace ct::cpu {

/// y = x Phi(x), NaN stays NaN; y may be x.
void gelu(const float* x, float* y, int64_t n);
void gelu(const uint16_t* x, uint16_t* y, int64_t n);

/// dx = dy (Phi(x) + x phi(x)), phi the normal density; dx may be dy.
void gelu_grad(const float* x, const float* dy, float* dx, int64_t n);
void gelu_grad(const uint16_t* x, const uint16_t* dy, uint16_t* dx, int64_t n);

}  // namespace ct::cpu
