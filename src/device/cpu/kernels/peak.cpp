#include "device/cpu/kernels/peak.h"

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/peak.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

int64_t multiply_adds_here(int64_t rounds, float* sink) {
  const hn::CappedTag<float, 16> d;
  constexpr int kChains = 12;  // more than latency times ports
  const auto a = hn::Set(d, 0.999999f), b = hn::Set(d, 1e-6f);
  // Different values, or the compiler would see one chain.
  auto x0 = hn::Iota(d, 0), x1 = hn::Iota(d, 1), x2 = hn::Iota(d, 2), x3 = hn::Iota(d, 3), x4 = hn::Iota(d, 4),
       x5 = hn::Iota(d, 5), x6 = hn::Iota(d, 6), x7 = hn::Iota(d, 7), x8 = hn::Iota(d, 8), x9 = hn::Iota(d, 9),
       x10 = hn::Iota(d, 10), x11 = hn::Iota(d, 11);
  for (int64_t i = 0; i < rounds; ++i) {
    x0 = hn::MulAdd(x0, a, b), x1 = hn::MulAdd(x1, a, b), x2 = hn::MulAdd(x2, a, b), x3 = hn::MulAdd(x3, a, b);
    x4 = hn::MulAdd(x4, a, b), x5 = hn::MulAdd(x5, a, b), x6 = hn::MulAdd(x6, a, b), x7 = hn::MulAdd(x7, a, b);
    x8 = hn::MulAdd(x8, a, b), x9 = hn::MulAdd(x9, a, b), x10 = hn::MulAdd(x10, a, b), x11 = hn::MulAdd(x11, a, b);
  }
  const auto sum =
      hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)),
              hn::Add(hn::Add(hn::Add(x4, x5), hn::Add(x6, x7)), hn::Add(hn::Add(x8, x9), hn::Add(x10, x11))));
  *sink = hn::GetLane(sum);
  return rounds * kChains * 2 * static_cast<int64_t>(hn::Lanes(d));
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(multiply_adds_here);
int64_t multiply_adds(int64_t rounds, float* sink) { return HWY_DYNAMIC_DISPATCH(multiply_adds_here)(rounds, sink); }
}  // namespace ct::cpu
#endif
