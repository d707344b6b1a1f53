#include "device/cpu/kernels/activation.h"

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/activation.cpp"
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

// Of each activation its value, and dy times its derivative at x.
struct ReluRule {
  template <class DV>
  static HWY_INLINE hn::Vec<DV> value(DV dv, hn::Vec<DV> x) {
    return relu(dv, x);
  }
  template <class DV>
  static HWY_INLINE hn::Vec<DV> gradient(DV dv, hn::Vec<DV> x, hn::Vec<DV> dy) {
    return hn::IfThenZeroElse(hn::Le(x, hn::Zero(dv)), dy);
  }
};
struct GeluRule {
  template <class DV>
  static HWY_INLINE hn::Vec<DV> value(DV dv, hn::Vec<DV> x) {
    return hn::Mul(x, normal_cdf(dv, x));
  }
  template <class DV>
  static HWY_INLINE hn::Vec<DV> gradient(DV dv, hn::Vec<DV> x, hn::Vec<DV> dy) {
    return hn::Mul(dy, gelu_derivative(dv, x));
  }
};

/// pass(rule)
template <class Pass>
HWY_INLINE void by_rule(Activation activation, Pass&& pass) {
  switch (activation) {
    case Activation::none:
      return;
    case Activation::relu:
      return pass(ReluRule());
    case Activation::gelu:
      return pass(GeluRule());
  }
}

template <bool PastCaches, class T>
HWY_INLINE void value_pass(Activation activation, const T* x, T* y, int64_t n) {
  by_rule(activation, [&]<class Rule>(Rule) CT_UNROLLED {
    for_each<PastCaches>(
        n, y, [](auto dv, auto v) CT_UNROLLED { return Rule::value(dv, v); }, x);
  });
  if (PastCaches) hwy::FlushStream();
}
template <bool PastCaches, class T>
HWY_INLINE void gradient_pass(Activation activation, const T* x, const T* dy, T* dx, int64_t n) {
  by_rule(activation, [&]<class Rule>(Rule) CT_UNROLLED {
    for_each<PastCaches>(
        n, dx, [](auto dv, auto v, auto g) CT_UNROLLED { return Rule::gradient(dv, v, g); }, x, dy);
  });
  if (PastCaches) hwy::FlushStream();
}

template <class T>
HWY_INLINE void value_of(Activation a, const T* x, T* y, int64_t n) {
  past_caches(y, n) ? value_pass<true>(a, x, y, n) : value_pass<false>(a, x, y, n);
}
template <class T>
HWY_INLINE void gradient_of(Activation a, const T* x, const T* dy, T* dx, int64_t n) {
  past_caches(dx, n) ? gradient_pass<true>(a, x, dy, dx, n) : gradient_pass<false>(a, x, dy, dx, n);
}

void Value(Activation a, const float* x, float* y, int64_t n) { value_of(a, x, y, n); }
void ValueBf16(Activation a, const uint16_t* x, uint16_t* y, int64_t n) { value_of(a, x, y, n); }
void Gradient(Activation a, const float* x, const float* dy, float* dx, int64_t n) { gradient_of(a, x, dy, dx, n); }
void GradientBf16(Activation a, const uint16_t* x, const uint16_t* dy, uint16_t* dx, int64_t n) {
  gradient_of(a, x, dy, dx, n);
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(Value);
HWY_EXPORT(ValueBf16);
HWY_EXPORT(Gradient);
HWY_EXPORT(GradientBf16);

void activate(Activation a, const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(Value)(a, x, y, n); }
void activate(Activation a, const uint16_t* x, uint16_t* y, int64_t n) { HWY_DYNAMIC_DISPATCH(ValueBf16)(a, x, y, n); }
void activation_grad(Activation a, const float* x, const float* dy, float* dx, int64_t n) {
  HWY_DYNAMIC_DISPATCH(Gradient)(a, x, dy, dx, n);
}
void activation_grad(Activation a, const uint16_t* x, const uint16_t* dy, uint16_t* dx, int64_t n) {
  HWY_DYNAMIC_DISPATCH(GradientBf16)(a, x, dy, dx, n);
}
}  // namespace ct::cpu
#endif
