#include "device/cpu/kernels/tokens.h"

#include <algorithm>

#include "device/cpu/kernels/linear.h"
#include "device/cpu/kernels/targets.h"
#include "device/cpu/kernels/typed.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/tokens.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE void add_positions(const TokensArgs<T>& a) {
  const TokensShape& s = a.shape;
  const int64_t stride = padded(s.columns);
  const T* x = a.x;
  T* y = a.y;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t t = 0; t < s.tokens; ++t, y += stride) {
      const bool own = t == 0 && a.class_token != nullptr;
      const T *token = own ? a.class_token : x, *position = a.positions + t * stride;
      for_elements(s.columns, [&](auto dv, int64_t i) CT_UNROLLED {
        store(dv, hn::Add(load(dv, token + i), load(dv, position + i)), y + i);
      });
      std::fill(y + s.columns, y + stride, T(0));
      if (!own) x += s.x_stride;
    }
}
CT_TYPED_TARGET(Tokens, add_positions, TokensArgs)

template <class T>
HWY_INLINE void sum_positions(const TokensGradArgs<T>& a) {
  const TokensShape& s = a.shape;
  const int64_t stride = padded(s.columns);
  std::fill_n(a.dpositions, s.tokens * stride, 0.0f);
  const T* dy = a.dy;
  T* dx = a.dx;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t t = 0; t < s.tokens; ++t, dy += stride) {
      float* sum = a.dpositions + t * stride;
      for_elements(s.columns, [&](auto dv, int64_t i)
                                  CT_UNROLLED { store(dv, hn::Add(load(dv, sum + i), load(dv, dy + i)), sum + i); });
      if (t == 0 && a.dclass_token != nullptr) continue;
      std::copy_n(dy, s.columns, dx);
      std::fill(dx + s.columns, dx + s.x_stride, T(0));
      dx += s.x_stride;
    }
  if (a.dclass_token != nullptr) std::copy_n(a.dpositions, stride, a.dclass_token);
}
CT_TYPED_TARGET(TokensGrad, sum_positions, TokensGradArgs)

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
CT_TYPED_KERNEL(tokens, Tokens, TokensArgs)
CT_TYPED_KERNEL(tokens_grad, TokensGrad, TokensGradArgs)
}  // namespace ct::cpu
#endif
