// What every vector kernel shares; compiled once per instruction set (no #pragma once by design).
#if defined(CT_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CT_SIMD_INL_H_
#undef CT_SIMD_INL_H_
#else
#define CT_SIMD_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;  // at most 16 lanes: the padding of rows
using V = hn::Vec<D>;
constexpr D d;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr bool kWide = kLanes == 16;  // 32 registers of 16 lanes: the big register blocks
constexpr int kVecs = 16 / kLanes;    // vectors in 16 floats

/// An unrolled loop: body(std::integral_constant<int, i>) for i in [0, Count), so that arrays of vectors indexed by i
/// stay in registers.
template <class Body, int... I>
HWY_INLINE void unroll_sequence(Body&& body, std::integer_sequence<int, I...>) {
  (body(std::integral_constant<int, I>()), ...);
}
template <int Count, class Body>
HWY_INLINE void unroll(Body&& body) {
  unroll_sequence(body, std::make_integer_sequence<int, Count>());
}
#define CT_UNROLLED HWY_ATTR __attribute__((always_inline))

using D4 = hn::CappedTag<float, 4>;
constexpr D4 d4;

/// sum of a[i] * b[i]
HWY_INLINE float dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int64_t n) {
  V sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  float result = hn::GetLane(hn::SumOfLanes(d, sum));
  if constexpr (kLanes > 4) {
    auto rest = hn::Zero(d4);
    for (; i + 4 <= n; i += 4) rest = hn::MulAdd(hn::LoadU(d4, a + i), hn::LoadU(d4, b + i), rest);
    result += hn::GetLane(hn::SumOfLanes(d4, rest));
  }
  for (; i < n; ++i) result += a[i] * b[i];
  return result;
}

/// y[i] += a * x[i]
HWY_INLINE void axpy(float a, const float* HWY_RESTRICT x, float* HWY_RESTRICT y, int64_t n) {
  const V scale = hn::Set(d, a);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    hn::StoreU(hn::MulAdd(scale, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  for (; i < n; ++i) y[i] += a * x[i];
}

/// ReLU that lets NaN through.
HWY_INLINE V relu(V x) { return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x); }

/// One image from planar [C][pixels] to [pixels][C].
HWY_INLINE void planar_to_channels_last(const float* HWY_RESTRICT x, int64_t channels, int64_t pixels,
                                        float* HWY_RESTRICT out) {
  for (int64_t p = 0; p < pixels; ++p)
    for (int64_t c = 0; c < channels; ++c) out[p * channels + c] = x[c * pixels + p];
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
