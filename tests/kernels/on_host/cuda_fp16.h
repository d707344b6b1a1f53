// f16 as NVIDIA's header of the same name has it: conversions only.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda_runtime.h"

struct alignas(2) __half {
  uint16_t bits;
};
using half = __half;
struct alignas(4) __half2 {
  __half x, y;
};

/// To nearest, ties to even; beyond 65519.996 infinite; NaN becomes the one quiet NaN of the device.
inline __half __float2half(float x) {
  if (x != x) return {0x7fff};
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  bits &= 0x7fffffff;
  if (bits >= 0x477ff000) return {static_cast<uint16_t>(sign | 0x7c00)};
  if (bits < 0x38800000)  // denormal in f16: a multiple of 2^-24
    return {static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(std::fabs(x), 24))))};
  bits -= 112u << 23;  // from f32's exponent bias to f16's
  return {static_cast<uint16_t>(sign | (bits + 0xfff + (bits >> 13 & 1)) >> 13)};
}
inline __half __float2half_rn(float x) { return __float2half(x); }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half(x), __float2half(y)}; }

inline float __half2float(__half x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16, exponent = x.bits >> 10 & 31, fraction = x.bits & 0x3ff;
  uint32_t bits = sign;
  if (exponent == 31)
    bits |= 0x7f800000 | fraction << 13;
  else if (exponent > 0)
    bits |= (exponent + 112) << 23 | fraction << 13;
  float y;
  std::memcpy(&y, &bits, sizeof y);
  if (exponent == 0) y = std::copysign(std::ldexp(static_cast<float>(fraction), -24), y);
  return y;
}
