// Elements of tensors: f32, bf16 or f16 in memory, float in registers, accessed 16 bytes at a time.
#pragma once

#include "launch.h"

namespace ct::kernels {

enum class Type : uint8_t { f32, bf16, f16 };

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }

/// Rounded to nearest, ties to even.
template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16(x);
}
template <>
__device__ __forceinline__ __half from_float<__half>(float x) {
  return __float2half(x);
}

/// The operand of one access, 16 bytes by default; memory must be aligned to its size.
template <class T, int N = 16 / sizeof(T)>
struct alignas(N * sizeof(T)) Pack {
  static constexpr int kSize = N;
  T at[N];
};

/// to = from[0..N). If N is a multiple of 4, accesses are 16 bytes wide and `from` must be aligned to 16 bytes.
template <int N>
__device__ __forceinline__ void load_floats(const float* from, float (&to)[N]) {
  constexpr int kWide = N % 4 == 0 ? 4 : 1;
  for (int i = 0; i < N; i += kWide) {
    const auto pack = *reinterpret_cast<const Pack<float, kWide>*>(from + i);
    for (int k = 0; k < kWide; ++k) to[i + k] = pack.at[k];
  }
}

/// call(T{}), where T is the element type of `type`.
template <class Call>
cudaError_t with_type(Type type, Call call) {
  switch (type) {
    case Type::f32:
      return call(float{});
    case Type::bf16:
      return call(__nv_bfloat16{});
    case Type::f16:
      return call(__half{});
  }
  return cudaErrorInvalidValue;
}

/// Are all pointers aligned to 16 bytes (null is), so that Packs may be used?
template <class... Pointers>
bool aligned_16(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace ct::kernels
