// The optimizers' formulas (graph/optimizer_rules-inl.h) for kernels.
#pragma once

#include <cmath>

#include "graph/optimizer_rules.h"
#include "launch.h"

namespace ct::kernels {
namespace {

/// The f32 type for which kernels instantiate the rules' formulas.
struct Register {
  float v;
  Register() = default;
  __device__ __forceinline__ explicit Register(float x) : v(x) {}
};
__device__ __forceinline__ Register operator+(Register a, Register b) { return Register(a.v + b.v); }
__device__ __forceinline__ Register operator-(Register a, Register b) { return Register(a.v - b.v); }
__device__ __forceinline__ Register operator*(Register a, Register b) { return Register(a.v * b.v); }
__device__ __forceinline__ Register operator/(Register a, Register b) { return Register(__fdiv_rn(a.v, b.v)); }
__device__ __forceinline__ Register operator-(Register a) { return Register(-a.v); }
__device__ __forceinline__ Register fma(Register a, Register b, Register c) {
  return Register(__fmaf_rn(a.v, b.v, c.v));
}
__device__ __forceinline__ Register sqrt(Register a) { return Register(__fsqrt_rn(a.v)); }
__device__ __forceinline__ Register not_negative(Register a) { return Register(fmaxf(a.v, 0.0f)); }
__device__ __forceinline__ Register sign(Register a) { return Register(a.v > 0 ? 1.0f : a.v < 0 ? -1.0f : a.v); }

#define CT_RULE __device__ __forceinline__
#include "graph/optimizer_rules-inl.h"

}  // namespace
}  // namespace ct::kernels
