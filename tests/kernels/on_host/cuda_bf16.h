// bf16 as NVIDIA's header of the same name has it: conversions only.
#pragma once

#include <cstdint>
#include <cstring>

#include "cuda_runtime.h"

struct alignas(2) __nv_bfloat16 {
  uint16_t bits;
};
using nv_bfloat16 = __nv_bfloat16;
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

/// To nearest, ties to even; NaN becomes the one quiet NaN of the device.
inline __nv_bfloat16 __float2bfloat16(float x) {
  if (x != x) return {0x7fff};
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __float2bfloat16(x); }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__float2bfloat16(x), __float2bfloat16(y)}; }

inline float __bfloat162float(__nv_bfloat16 x) {
  const uint32_t bits = uint32_t{x.bits} << 16;
  float y;
  std::memcpy(&y, &bits, sizeof y);
  return y;
}
