// The sum of squares of up to kSquareChunk elements, in f64, for kernels that compute it with other results. Element i
// is added to lane i mod 2 kLanes of the accumulators. At the end, the lanes are added, then the remaining elements.
// Compiled once per instruction set (no #pragma once by design); include after simd-inl.h.
#if defined(CT_CPU_SQUARE_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CT_CPU_SQUARE_SUM_INL_H_
#undef CT_CPU_SQUARE_SUM_INL_H_
#else
#define CT_CPU_SQUARE_SUM_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

class SquareSum {
 public:
  static constexpr int64_t kStep = 2 * kLanes;  // elements that add() takes

  HWY_INLINE SquareSum() : acc_{hn::Zero(dd_), hn::Zero(dd_), hn::Zero(dd_), hn::Zero(dd_)} {}
  /// Adds two adjacent vectors.
  HWY_INLINE void add(V first, V second) {
#if HWY_TARGET == HWY_SCALAR
    add_to<0>(first);
    add_to<1>(second);
#else
    const hn::Half<D> half;
    add_to<0>(hn::LowerHalf(half, first));
    add_to<1>(hn::UpperHalf(half, first));
    add_to<2>(hn::LowerHalf(half, second));
    add_to<3>(hn::UpperHalf(half, second));
#endif
  }
  /// The sum of all added elements and of less than kStep further ones.
  HWY_INLINE double total(const float* rest, int64_t n) const {
    double sum = hn::GetLane(hn::SumOfLanes(dd_, hn::Add(hn::Add(acc_[0], acc_[1]), hn::Add(acc_[2], acc_[3]))));
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(rest[i]) * rest[i];
    return sum;
  }

 private:
  using Doubles = hn::CappedTag<double, kLanes == 1 ? 1 : kLanes / 2>;
  static constexpr Doubles dd_{};

  template <int K, class X>
  HWY_INLINE void add_to(X x) {
    const hn::Vec<Doubles> value = hn::PromoteTo(dd_, x);
    acc_[K] = hn::MulAdd(value, value, acc_[K]);
  }

  hn::Vec<Doubles> acc_[4];
};

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
