// The normal distribution Phi in registers, for GELU x Phi(x) and its derivative. Compiled once per instruction set (no
// #pragma once by design); include after simd-inl.h.
//
// Phi and the derivative are each 1/2 plus an odd function: x times a minimax polynomial in x^2, with x clamped to the
// range outside which the error is smaller. Phi is 0 below -5.2. The error of Phi is at most 4e-7 (f32's step is 6e-8
// near 1), that of the derivative at most 5e-7.
#if defined(CT_GELU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CT_GELU_INL_H_
#undef CT_GELU_INL_H_
#else
#define CT_GELU_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

/// 1/2 + x P(2 (x / limit)^2 - 1), with x clamped to -limit..limit. Even and odd powers of P are two independent
/// chains, because one chain would be bound by latency.
template <class DV, int N>
HWY_INLINE hn::Vec<DV> half_and_odd(DV dv, hn::Vec<DV> x, float limit, const float (&c)[N]) {
  const auto one = hn::Set(dv, 1.0f);
  x = hn::Min(hn::Max(x, hn::Set(dv, -limit)), hn::Set(dv, limit));
  const auto t = hn::MulSub(hn::Mul(x, x), hn::Set(dv, 2 / (limit * limit)), one), square = hn::Mul(t, t);
  auto last = hn::Set(dv, c[N - 1]),
       other = hn::Set(dv, c[N - 2]);  // last: the powers N - 1, N - 3, ...; other: the rest
  unroll<(N - 1) / 2>([&](auto i) CT_UNROLLED { last = hn::MulAdd(last, square, hn::Set(dv, c[N - 3 - 2 * i])); });
  unroll<N / 2 - 1>([&](auto i) CT_UNROLLED { other = hn::MulAdd(other, square, hn::Set(dv, c[N - 4 - 2 * i])); });
  const auto sum = N % 2 == 0 ? hn::MulAdd(last, t, other) : hn::MulAdd(other, t, last);
  return hn::MulAdd(x, sum, hn::Set(dv, 0.5f));
}

/// Phi(x).
template <class DV>
HWY_INLINE hn::Vec<DV> normal_cdf(DV dv, hn::Vec<DV> x) {
  constexpr float kHalf[] = {0.135950044f,   -0.0677436739f,  0.0500244051f,  -0.0399296023f,  0.0319916606f,
                             -0.0247261487f, 0.0179458372f,   -0.0124933189f, 0.00858084671f,  -0.00481474306f,
                             0.00177803438f, -0.00119548582f, 0.00127715548f, -0.000491146406f};
  return hn::Max(half_and_odd(dv, x, 5.2f, kHalf), hn::Zero(dv));
}

/// Phi(x) + x phi(x).
template <class DV>
HWY_INLINE hn::Vec<DV> gelu_derivative(DV dv, hn::Vec<DV> x) {
  constexpr float kHalf[] = {0.121998757f,   -0.0616569556f, 0.0486383364f,  -0.0462234281f, 0.0501055419f,
                             -0.0573242642f, 0.0655657351f,  -0.0722707734f, 0.067736946f,   -0.0512269475f,
                             0.0483577065f,  -0.0545177571f, 0.0291531533f,  0.00230825017f, 0.00415151473f,
                             -0.0149267055f, 0.00633782893f};
  return half_and_odd(dv, x, 5.8f, kHalf);
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
