#include "device/cpu/kernels/gelu.h"

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/gelu.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"
// After simd-inl.h:
#include "device/cpu/kernels/bf16_pairs-inl.h"
#include "device/cpu/kernels/gelu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

/// y[i] = of(tag, x[i]...), vector by vector; bf16 in pairs of them.
template <bool PastCaches, class Function, class... X>
HWY_INLINE void for_each(int64_t n, float* y, Function&& of, const X*... x) {
  for_elements(n, [&](auto dv, int64_t i) CT_UNROLLED { store<PastCaches>(dv, of(dv, load(dv, x + i)...), y + i); });
}
template <bool PastCaches, class Function, class... X>
HWY_INLINE void for_each(int64_t n, uint16_t* y, Function&& of, const X*... x) {
  for_pairs<PastCaches>(n, y, of, x...);
}

template <bool PastCaches, class T>
HWY_INLINE void gelu_pass(const T* x, T* y, int64_t n) {
  for_each<PastCaches>(
      n, y, [](auto dv, auto v) CT_UNROLLED { return hn::Mul(v, normal_cdf(dv, v)); }, x);
  if (PastCaches) hwy::FlushStream();
}

template <bool PastCaches, class T>
HWY_INLINE void gelu_grad_pass(const T* x, const T* dy, T* dx, int64_t n) {
  for_each<PastCaches>(
      n, dx, [](auto dv, auto g, auto v) CT_UNROLLED { return hn::Mul(g, gelu_derivative(dv, v)); }, dy, x);
  if (PastCaches) hwy::FlushStream();
}

template <class T>
HWY_INLINE void gelu_of(const T* x, T* y, int64_t n) {
  past_caches(y, n) ? gelu_pass<true>(x, y, n) : gelu_pass<false>(x, y, n);
}
template <class T>
HWY_INLINE void gelu_grad_of(const T* x, const T* dy, T* dx, int64_t n) {
  past_caches(dx, n) ? gelu_grad_pass<true>(x, dy, dx, n) : gelu_grad_pass<false>(x, dy, dx, n);
}

void Gelu(const float* x, float* y, int64_t n) { gelu_of(x, y, n); }
void GeluBf16(const uint16_t* x, uint16_t* y, int64_t n) { gelu_of(x, y, n); }
void GeluGrad(const float* x, const float* dy, float* dx, int64_t n) { gelu_grad_of(x, dy, dx, n); }
void GeluGradBf16(const uint16_t* x, const uint16_t* dy, uint16_t* dx, int64_t n) { gelu_grad_of(x, dy, dx, n); }

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(Gelu);
HWY_EXPORT(GeluBf16);
HWY_EXPORT(GeluGrad);
HWY_EXPORT(GeluGradBf16);

void gelu(const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(Gelu)(x, y, n); }
void gelu(const uint16_t* x, uint16_t* y, int64_t n) { HWY_DYNAMIC_DISPATCH(GeluBf16)(x, y, n); }
void gelu_grad(const float* x, const float* dy, float* dx, int64_t n) { HWY_DYNAMIC_DISPATCH(GeluGrad)(x, dy, dx, n); }
void gelu_grad(const uint16_t* x, const uint16_t* dy, uint16_t* dx, int64_t n) {
  HWY_DYNAMIC_DISPATCH(GeluGradBf16)(x, dy, dx, n);
}
}  // namespace ct::cpu
#endif
