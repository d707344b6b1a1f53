#include "comm/reduction/chain_sum.h"

#include <algorithm>
#include <array>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "comm/reduction/chain_sum.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ct::chain::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <int kTerms>
void sum(const float* const* terms, float* out, int64_t numel) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  std::array<const float*, kTerms> t;
  for (int k = 0; k < kTerms; ++k) t[k] = terms[k];
  int64_t i = 0;
  for (; i + lanes <= numel; i += lanes) {
    auto v = hn::LoadU(d, t[0] + i);
    for (int k = 1; k < kTerms; ++k) v = hn::Add(hn::LoadU(d, t[k] + i), v);
    hn::StoreU(v, d, out + i);
  }
  for (; i < numel; ++i) {
    float v = t[0][i];
    for (int k = 1; k < kTerms; ++k) v = t[k][i] + v;
    out[i] = v;
  }
}

void sum_up_to_4(const float* const* terms, size_t count, float* out, int64_t numel) {
  switch (count) {
    case 2:
      return sum<2>(terms, out, numel);
    case 3:
      return sum<3>(terms, out, numel);
    default:
      return sum<4>(terms, out, numel);
  }
}

}  // namespace ct::chain::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct {
namespace chain {
HWY_EXPORT(sum_up_to_4);
}

void chain_sum(std::span<const float* const> terms, float* out, int64_t numel) {
  using namespace chain;
  if (terms.size() == 1) {
    if (terms[0] != out) std::memcpy(out, terms[0], static_cast<size_t>(numel) * sizeof(float));
    return;
  }
  if (terms.size() <= 4) return HWY_DYNAMIC_DISPATCH(sum_up_to_4)(terms.data(), terms.size(), out, numel);
  // A longer chain goes through a partial sum of its own: `out` may be a term that is still to be read.
  alignas(64) float partial[kChainBlock];
  HWY_DYNAMIC_DISPATCH(sum_up_to_4)(terms.data(), 4, partial, numel);
  for (terms = terms.subspan(4); !terms.empty();) {
    const size_t count = std::min<size_t>(3, terms.size());
    std::array<const float*, 4> four{partial};
    std::copy_n(terms.begin(), count, four.begin() + 1);
    terms = terms.subspan(count);
    HWY_DYNAMIC_DISPATCH(sum_up_to_4)(four.data(), count + 1, terms.empty() ? out : partial, numel);
  }
}

}  // namespace ct
#endif
