#include "device/cpu/kernels/optimizer.h"

#include <cstring>

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/optimizer.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

/// Calls body(pointers...) for every whole vector and, for what is left, on zero-filled copies that are copied back:
/// the same instructions for every element wherever the range is cut.
template <class Body, class... T>
HWY_INLINE void for_vectors(int64_t n, Body&& body, T*... arrays) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body((arrays == nullptr ? nullptr : arrays + i)...);
  if (i == n) return;
  alignas(64) unsigned char copies[sizeof...(T)][64] = {};
  const auto rest = static_cast<size_t>(n - i);
  [&]<size_t... K>(std::index_sequence<K...>) CT_UNROLLED {
    ((arrays != nullptr ? std::memcpy(copies[K], arrays + i, rest * sizeof(T)) : nullptr), ...);
    body((arrays != nullptr ? reinterpret_cast<T*>(copies[K]) : nullptr)...);
    const auto copy_back = [&](auto* array, const unsigned char* copy) {
      if constexpr (!std::is_const_v<std::remove_pointer_t<decltype(array)>>)
        if (array != nullptr) std::memcpy(array + i, copy, rest * sizeof(*array));
    };
    (copy_back(arrays, copies[K]), ...);
  }
  (std::index_sequence_for<T...>());
}

template <bool Decoupled, bool Bf16>
HWY_INLINE void adam_pass(const AdamArgs& a) {
  const V b1 = hn::Set(d, a.beta1), c1 = hn::Set(d, a.one_minus_beta1), b2 = hn::Set(d, a.beta2),
          c2 = hn::Set(d, a.one_minus_beta2), eps = hn::Set(d, a.eps), decay = hn::Set(d, a.weight_decay),
          minus_lr = hn::Set(d, -a.learning_rate), scale = hn::Set(d, a.gradient_scale),
          correct1 = hn::Set(d, a.bias_correction1), correct2 = hn::Set(d, a.sqrt_bias_correction2);
  const auto body = [&](const float* grads, float* params, float* exp_avg, float* exp_avg_sq, uint16_t* bf16)
                        CT_UNROLLED {
                          V g = hn::Mul(hn::LoadU(d, grads), scale);
                          V p = hn::LoadU(d, params);
                          if constexpr (!Decoupled) g = hn::MulAdd(decay, p, g);
                          const V m = hn::MulAdd(b1, hn::LoadU(d, exp_avg), hn::Mul(c1, g));
                          const V v = hn::MulAdd(b2, hn::LoadU(d, exp_avg_sq), hn::Mul(c2, hn::Mul(g, g)));
                          V u = hn::Div(hn::Mul(m, correct1), hn::MulAdd(hn::Sqrt(v), correct2, eps));
                          if constexpr (Decoupled) u = hn::MulAdd(decay, p, u);
                          p = hn::MulAdd(minus_lr, u, p);
                          hn::StoreU(m, d, exp_avg);
                          hn::StoreU(v, d, exp_avg_sq);
                          hn::StoreU(p, d, params);
                          if constexpr (Bf16) store(d, p, bf16);
                        };
  for_vectors(a.n, body, a.grads, a.params, a.exp_avg, a.exp_avg_sq, Bf16 ? a.bf16_params : nullptr);
}

void Adam(const AdamArgs& a) {
  const bool bf16 = a.bf16_params != nullptr;
  if (a.decoupled) return bf16 ? adam_pass<true, true>(a) : adam_pass<true, false>(a);
  return bf16 ? adam_pass<false, true>(a) : adam_pass<false, false>(a);
}

template <bool Momentum>
HWY_INLINE void sgd_pass(const SgdArgs& a) {
  const V scale = hn::Set(d, a.gradient_scale), decay = hn::Set(d, a.weight_decay), momentum = hn::Set(d, a.momentum),
          minus_lr = hn::Set(d, -a.learning_rate);
  const auto body = [&](const float* grads, float* params, float* buffer, uint16_t* bf16) CT_UNROLLED {
    V p = hn::LoadU(d, params);
    V g = hn::MulAdd(decay, p, hn::Mul(hn::LoadU(d, grads), scale));
    if constexpr (Momentum) {
      const V buf = hn::MulAdd(momentum, hn::LoadU(d, buffer), g);
      hn::StoreU(buf, d, buffer);
      g = a.nesterov ? hn::MulAdd(momentum, buf, g) : buf;
    }
    p = hn::MulAdd(minus_lr, g, p);
    hn::StoreU(p, d, params);
    if (bf16 != nullptr) store(d, p, bf16);
  };
  for_vectors(a.n, body, a.grads, a.params, a.momentum_buffer, a.bf16_params);
}

void Sgd(const SgdArgs& a) { return a.momentum_buffer == nullptr ? sgd_pass<false>(a) : sgd_pass<true>(a); }

template <bool Centered, bool Momentum>
HWY_INLINE void rmsprop_pass(const RmsPropArgs& a) {
  const V alpha = hn::Set(d, a.alpha), rest = hn::Set(d, a.one_minus_alpha), eps = hn::Set(d, a.eps),
          momentum = hn::Set(d, a.momentum), decay = hn::Set(d, a.weight_decay),
          minus_lr = hn::Set(d, -a.learning_rate), scale = hn::Set(d, a.gradient_scale);
  const auto body = [&](const float* grads, float* params, float* square_avg, float* buffer, float* grad_avg,
                        uint16_t* bf16) CT_UNROLLED {
    V p = hn::LoadU(d, params);
    const V g = hn::MulAdd(decay, p, hn::Mul(hn::LoadU(d, grads), scale));
    V v = hn::MulAdd(alpha, hn::LoadU(d, square_avg), hn::Mul(rest, hn::Mul(g, g)));
    hn::StoreU(v, d, square_avg);
    if constexpr (Centered) {
      const V mean = hn::MulAdd(alpha, hn::LoadU(d, grad_avg), hn::Mul(rest, g));
      hn::StoreU(mean, d, grad_avg);
      v = hn::Max(hn::NegMulAdd(mean, mean, v), hn::Zero(d));
    }
    V u = hn::Div(g, hn::Add(hn::Sqrt(v), eps));
    if constexpr (Momentum) {
      u = hn::MulAdd(momentum, hn::LoadU(d, buffer), u);
      hn::StoreU(u, d, buffer);
    }
    p = hn::MulAdd(minus_lr, u, p);
    hn::StoreU(p, d, params);
    if (bf16 != nullptr) store(d, p, bf16);
  };
  for_vectors(a.n, body, a.grads, a.params, a.square_avg, a.momentum_buffer, a.grad_avg, a.bf16_params);
}

void RmsProp(const RmsPropArgs& a) {
  const bool momentum = a.momentum_buffer != nullptr;
  if (a.grad_avg != nullptr) return momentum ? rmsprop_pass<true, true>(a) : rmsprop_pass<true, false>(a);
  return momentum ? rmsprop_pass<false, true>(a) : rmsprop_pass<false, false>(a);
}

void Ema(const EmaArgs& a) {
  const V rest = hn::Set(d, a.rest);
  const auto body = [&](const float* params, float* average) CT_UNROLLED {
    const V old = hn::LoadU(d, average);
    hn::StoreU(hn::MulAdd(rest, hn::Sub(hn::LoadU(d, params), old), old), d, average);
  };
  for_vectors(a.n, body, a.params, a.average);
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(Adam);
HWY_EXPORT(Sgd);
HWY_EXPORT(RmsProp);
HWY_EXPORT(Ema);

void adam(const AdamArgs& args) { HWY_DYNAMIC_DISPATCH(Adam)(args); }
void sgd(const SgdArgs& args) { HWY_DYNAMIC_DISPATCH(Sgd)(args); }
void rmsprop(const RmsPropArgs& args) { HWY_DYNAMIC_DISPATCH(RmsProp)(args); }
void ema(const EmaArgs& args) { HWY_DYNAMIC_DISPATCH(Ema)(args); }
}  // namespace ct::cpu
#endif
