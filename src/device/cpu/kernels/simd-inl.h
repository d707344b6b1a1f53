// Functions of all vector kernels; compiled once per instruction set (no #pragma once by design).
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

// Elements in memory are float or bf16 (uint16_t: the upper half of a float); in registers they are float.
template <class DV>
HWY_INLINE hn::Vec<DV> load(DV dv, const float* from) {
  return hn::LoadU(dv, from);
}
template <class DV>
HWY_INLINE hn::Vec<DV> from_bf16(DV dv, hn::Vec<hn::Rebind<uint16_t, DV>> x) {
  const hn::RebindToUnsigned<DV> du;
  return hn::BitCast(dv, hn::ShiftLeft<16>(hn::PromoteTo(du, x)));
}
template <class DV>
HWY_INLINE hn::Vec<DV> load(DV dv, const uint16_t* from) {
  return from_bf16(dv, hn::LoadU(hn::Rebind<uint16_t, DV>(), from));
}
/// The upper halves, rounded to nearest, ties to even; NaN stays NaN.
template <class DV>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, DV>> to_bf16(DV, hn::Vec<DV> x) {
  const hn::RebindToUnsigned<DV> du;
  const hn::RebindToSigned<DV> di;
  const hn::Rebind<uint16_t, DV> d16;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7FFF)), odd));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40));  // rounding up could turn NaN into infinity
  const auto result = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), quiet, rounded);
  return hn::DemoteTo(d16, hn::BitCast(di, result));
}
template <class DV>
HWY_INLINE void store(DV dv, hn::Vec<DV> x, float* to) {
  hn::StoreU(x, dv, to);
}
template <class DV>
HWY_INLINE void store(DV dv, hn::Vec<DV> x, uint16_t* to) {
  hn::StoreU(to_bf16(dv, x), hn::Rebind<uint16_t, DV>(), to);
}

/// store() that bypasses the caches if `PastCaches`: for results that would evict other data and whose cache lines a
/// normal store would read first. Addresses must then be multiples of the vector's size; single elements are stored
/// through the caches.
template <bool PastCaches, class DV>
HWY_INLINE void store(DV dv, hn::Vec<DV> x, float* to) {
  if constexpr (PastCaches && hn::MaxLanes(DV()) == kLanes)
    hn::Stream(x, dv, to);
  else
    store(dv, x, to);
}
template <bool PastCaches, class DV>
HWY_INLINE void store(DV dv, hn::Vec<DV> x, uint16_t* to) {
  if constexpr (PastCaches && hn::MaxLanes(DV()) == kLanes)
    hn::Stream(to_bf16(dv, x), hn::Rebind<uint16_t, DV>(), to);
  else
    store(dv, x, to);
}
/// Should a result of n elements at `to` bypass the caches?
template <class T>
HWY_INLINE bool past_caches(const T* to, int64_t n) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  return n * static_cast<int64_t>(sizeof(T)) >= kBytes && reinterpret_cast<uintptr_t>(to) % 64 == 0;
}

/// Calls body(tag, i) for the whole vectors of n elements, then for each remaining element.
template <class Body>
HWY_INLINE void for_elements(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(d, i);
  for (; i < n; ++i) body(hn::CappedTag<float, 1>(), i);
}

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

/// c[0] + c[1] x + ... by Horner's rule.
template <class DV, int N>
HWY_INLINE hn::Vec<DV> polynomial(DV dv, hn::Vec<DV> x, const float (&c)[N]) {
  auto y = hn::Set(dv, c[N - 1]);
  unroll<N - 1>([&](auto i) CT_UNROLLED { y = hn::MulAdd(y, x, hn::Set(dv, c[N - 2 - i])); });
  return y;
}

/// e^x for x <= 88, to 1.5 units in the last place; 0 below -87.3, where it would be denormal; NaN stays NaN.
template <class DV>
HWY_INLINE hn::Vec<DV> exp(DV dv, hn::Vec<DV> x) {
  const hn::RebindToUnsigned<DV> du;
  constexpr float kTaylor[] = {1.0f,          1.0f,           0.499999911f,  0.166664198f,
                               0.0416682288f, 0.00837485678f, 0.00138367934f};  // minimax within ln(2) / 2
  const auto power = hn::NearestInt(hn::Mul(x, hn::Set(dv, 1.44269504f)));
  const auto n = hn::ConvertTo(dv, power);
  auto rest = hn::MulAdd(n, hn::Set(dv, -0.693359375f), x);  // x - n ln 2; the product with ln 2's first bits is exact
  rest = hn::MulAdd(n, hn::Set(dv, 2.12194440e-4f), rest);
  const auto scale = hn::BitCast(dv, hn::ShiftLeft<23>(hn::Add(hn::BitCast(du, power), hn::Set(du, 127))));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(dv, -87.3f)), hn::Mul(polynomial(dv, rest, kTaylor), scale));
}

/// ReLU that keeps NaN.
template <class DV>
HWY_INLINE hn::Vec<DV> relu(DV dv, hn::Vec<DV> x) {
  return hn::IfThenZeroElse(hn::Le(x, hn::Zero(dv)), x);
}

/// One image from planar [C][pixels] to [pixels][C].
HWY_INLINE void planar_to_channels_last(const float* HWY_RESTRICT x, int64_t channels, int64_t pixels,
                                        float* HWY_RESTRICT out) {
  for (int64_t p = 0; p < pixels; ++p)
    for (int64_t c = 0; c < channels; ++c) out[p * channels + c] = x[c * pixels + p];
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
