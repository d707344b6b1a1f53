// GELU, x Phi(x), and the standard normal distribution Phi, for all kernels that compute it.
#pragma once

#include <cmath>

#include "launch.h"

namespace ct::kernels {

/// Phi(x), the cumulative distribution function.
__device__ __forceinline__ float normal_cdf(float x) { return 0.5f * erfcf(-0.70710678f * x); }
__device__ __forceinline__ float normal_density(float x) { return 0.39894228f * expf(-0.5f * x * x); }

__device__ __forceinline__ float gelu_of(float x) { return x * normal_cdf(x); }
__device__ __forceinline__ float gelu_derivative(float x) { return __fmaf_rn(x, normal_density(x), normal_cdf(x)); }

}  // namespace ct::kernels
