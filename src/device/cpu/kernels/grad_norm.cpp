#include "device/cpu/kernels/grad_norm.h"

#include <algorithm>

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/grad_norm.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"
#include "device/cpu/kernels/square_sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

void SumOfSquares(const float* x, int64_t n, double* sums) {
  for (int64_t first = 0; first < n; first += kSquareChunk, ++sums) {
    const int64_t end = std::min(n, first + kSquareChunk);
    SquareSum sum;
    int64_t i = first;
    for (; i + SquareSum::kStep <= end; i += SquareSum::kStep)
      sum.add(hn::LoadU(D(), x + i), hn::LoadU(D(), x + i + kLanes));
    *sums = sum.total(x + i, end - i);
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
