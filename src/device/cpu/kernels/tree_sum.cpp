#include "device/cpu/kernels/tree_sum.h"

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/tree_sum.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

void TreeAdd(const float* x, std::span<const float* const> levels, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    V sum[4];
    unroll<4>([&](auto k) CT_UNROLLED { sum[k] = hn::LoadU(d, x + i + k * kLanes); });
    for (const float* level : levels)
      unroll<4>([&](auto k) CT_UNROLLED { sum[k] = hn::Add(hn::LoadU(d, level + i + k * kLanes), sum[k]); });
    unroll<4>([&](auto k) CT_UNROLLED { hn::StoreU(sum[k], d, out + i + k * kLanes); });
  }
  for (; i < n; ++i) {
    float sum = x[i];
    for (const float* level : levels) sum = level[i] + sum;
    out[i] = sum;
  }
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(TreeAdd);

void tree_add(const float* x, std::span<const float* const> levels, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(TreeAdd)(x, levels, out, n);
}
}  // namespace ct::cpu
#endif
