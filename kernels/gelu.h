// GELU, x Phi(x), and the standard normal distribution Phi, for all kernels that compute it, with the result's type T.
#pragma once

#include <cmath>
#include <type_traits>

#include "launch.h"

namespace ct::kernels {

/// Phi(x), the cumulative distribution function, by erfcf() for f32. That costs more instructions than a 16-bit element
/// has time for while memory moves it, so 16-bit types get 2 to the power of a polynomial: the minimax polynomial of
/// log2 Phi(-a), a = |x|, weighted for errors of Phi of at most 3e-7, relative errors of 1e-4 up to a = 4 and 5e-4 up
/// to 6. Farther out, where Phi is below 1e-9, it falls faster than Phi. A test compares all bf16 and f16 numbers.
template <class T>
__device__ __forceinline__ float normal_cdf(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return 0.5f * erfcf(-0.70710678f * x);
  } else {
    const float a = fabsf(x);
    float log = -9.727559e-08f;
    log = __fmaf_rn(log, a, 1.4420173e-06f);
    log = __fmaf_rn(log, a, 2.3460756e-05f);
    log = __fmaf_rn(log, a, -7.225659e-04f);
    log = __fmaf_rn(log, a, 7.932185e-03f);
    log = __fmaf_rn(log, a, -0.053160608f);
    log = __fmaf_rn(log, a, -0.45897275f);
    log = __fmaf_rn(log, a, -1.1511351f);
    log = __fmaf_rn(log, a, -0.9999994f);
    const float below = exp2f(log);  // Phi(-a)
    return x > 0 ? 1 - below : below;
  }
}
template <class T>
__device__ __forceinline__ float normal_density(float x) {
  if constexpr (std::is_same_v<T, float>)
    return 0.39894228f * expf(-0.5f * x * x);
  else
    return 0.39894228f * exp2f(-0.72134752f * x * x);
}

template <class T>
__device__ __forceinline__ float gelu_of(float x) {
  return x * normal_cdf<T>(x);
}
template <class T>
__device__ __forceinline__ float gelu_derivative(float x) {
  return __fmaf_rn(x, normal_density<T>(x), normal_cdf<T>(x));
}

}  // namespace ct::kernels
