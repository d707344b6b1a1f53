#include "device/cpu/kernels/grad_norm.h"

#include <algorithm>

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/grad_norm.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

void SumOfSquares(const float* x, int64_t n, double* sums) {
  const hn::CappedTag<double, 8> dd;
  const hn::Rebind<float, decltype(dd)> df;
  constexpr int64_t kStep = static_cast<int64_t>(hn::MaxLanes(dd));
  using VD = hn::Vec<decltype(dd)>;
  for (int64_t first = 0; first < n; first += kSquareChunk, ++sums) {
    const int64_t end = std::min(n, first + kSquareChunk);
    VD acc[4] = {hn::Zero(dd), hn::Zero(dd), hn::Zero(dd), hn::Zero(dd)};
    int64_t i = first;
    for (; i + 4 * kStep <= end; i += 4 * kStep)
      unroll<4>([&](auto k) CT_UNROLLED {
        const VD value = hn::PromoteTo(dd, hn::LoadU(df, x + i + k * kStep));
        acc[k] = hn::MulAdd(value, value, acc[k]);
      });
    double sum = hn::GetLane(hn::SumOfLanes(dd, hn::Add(hn::Add(acc[0], acc[1]), hn::Add(acc[2], acc[3]))));
    for (; i < end; ++i) sum += static_cast<double>(x[i]) * x[i];
    *sums = sum;
  }
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(SumOfSquares);

void sum_of_squares(const float* x, int64_t n, double* sums) { HWY_DYNAMIC_DISPATCH(SumOfSquares)(x, n, sums); }
}  // namespace ct::cpu
#endif
