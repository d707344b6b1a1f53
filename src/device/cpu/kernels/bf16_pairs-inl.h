// Two vectors of bf16 at a time: the even and the odd elements of 2 * kLanes adjacent ones. A 32-bit lane holds one of
// each, so that shifts and masks separate and join them. `load` and `store` of simd-inl.h move data across lanes
// instead, which costs more than most arithmetic between them. Compiled once per instruction set (no #pragma once by
// design); include after simd-inl.h.
#if defined(CT_BF16_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CT_BF16_PAIRS_INL_H_
#undef CT_BF16_PAIRS_INL_H_
#else
#define CT_BF16_PAIRS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

constexpr int kPair = 2 * kLanes;  // elements
using DPair = hn::RebindToUnsigned<D>;

struct Pair {
  V even, odd;
};

HWY_INLINE Pair taken_apart(hn::Vec<DPair> both) {
  return {hn::BitCast(d, hn::ShiftLeft<16>(both)), hn::BitCast(d, hn::And(both, hn::Set(DPair(), 0xFFFF0000u)))};
}
HWY_INLINE Pair load_pair(const uint16_t* from) {
  return taken_apart(hn::LoadU(DPair(), reinterpret_cast<const uint32_t*>(from)));
}

/// Bits whose upper half is x in bf16, rounded to nearest, ties to even. x must be a result of arithmetic: its NaNs are
/// quiet, so that their upper halves are NaNs too.
HWY_INLINE hn::Vec<DPair> rounded_above(V x) {
  const DPair du;
  const auto bits = hn::BitCast(du, x);
  const auto half = hn::Add(hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1)), hn::Set(du, 0x7FFF));
  return hn::Add(bits, hn::IfThenZeroElse(hn::RebindMask(du, hn::IsNaN(x)), half));
}
HWY_INLINE hn::Vec<DPair> joined(Pair x) {
  const DPair du;
  const auto odd = hn::And(rounded_above(x.odd), hn::Set(du, 0xFFFF0000u));
  return hn::Or(hn::ShiftRight<16>(rounded_above(x.even)), odd);
}

/// PastCaches: as for store(); `to` must then be a multiple of the vector's size.
template <bool PastCaches>
HWY_INLINE void store_pair(Pair x, uint16_t* to) {
  if constexpr (PastCaches)
    hn::Stream(joined(x), DPair(), reinterpret_cast<uint32_t*>(to));
  else
    hn::StoreU(joined(x), DPair(), reinterpret_cast<uint32_t*>(to));
}

/// y[i] = of(tag, x[i]...) for n elements.
template <bool PastCaches, class Function, class... X>
HWY_INLINE void for_pairs(int64_t n, uint16_t* y, Function&& of, const X*... x) {
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair)
    store_pair<PastCaches>(
        [&](auto... pair) CT_UNROLLED {
          return Pair{of(d, pair.even...), of(d, pair.odd...)};
        }(load_pair(x + i)...),
        y + i);
  for_elements(n - i, [&](auto dv, int64_t k) CT_UNROLLED { store(dv, of(dv, load(dv, x + i + k)...), y + i + k); });
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
