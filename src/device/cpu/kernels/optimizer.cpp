#include "device/cpu/kernels/optimizer.h"

#include <cstring>

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/optimizer.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"
#include "device/cpu/kernels/square_sum-inl.h"

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

void Lion(const LionArgs& a) {
  const V b1 = hn::Set(d, a.beta1), c1 = hn::Set(d, a.one_minus_beta1), b2 = hn::Set(d, a.beta2),
          c2 = hn::Set(d, a.one_minus_beta2), decay = hn::Set(d, a.weight_decay),
          minus_lr = hn::Set(d, -a.learning_rate), scale = hn::Set(d, a.gradient_scale), one = hn::Set(d, 1.0f);
  const auto body = [&](const float* grads, float* params, float* exp_avg, uint16_t* bf16) CT_UNROLLED {
    const V g = hn::Mul(hn::LoadU(d, grads), scale), m = hn::LoadU(d, exp_avg);
    const V c = hn::MulAdd(b1, m, hn::Mul(c1, g));
    const V sign = hn::IfThenElse(hn::Gt(hn::Abs(c), hn::Zero(d)), hn::CopySign(one, c), c);  // NaN shows
    V p = hn::LoadU(d, params);
    p = hn::MulAdd(minus_lr, hn::MulAdd(decay, p, sign), p);
    hn::StoreU(hn::MulAdd(b2, m, hn::Mul(c2, g)), d, exp_avg);
    hn::StoreU(p, d, params);
    if (bf16 != nullptr) store(d, p, bf16);
  };
  for_vectors(a.n, body, a.grads, a.params, a.exp_avg, a.bf16_params);
}

void Adagrad(const AdagradArgs& a) {
  const V eps = hn::Set(d, a.eps), decay = hn::Set(d, a.weight_decay), minus_lr = hn::Set(d, -a.learning_rate),
          scale = hn::Set(d, a.gradient_scale);
  const auto body = [&](const float* grads, float* params, float* sum, uint16_t* bf16) CT_UNROLLED {
    V p = hn::LoadU(d, params);
    const V g = hn::MulAdd(decay, p, hn::Mul(hn::LoadU(d, grads), scale));
    const V s = hn::MulAdd(g, g, hn::LoadU(d, sum));
    p = hn::MulAdd(minus_lr, hn::Div(g, hn::Add(hn::Sqrt(s), eps)), p);
    hn::StoreU(s, d, sum);
    hn::StoreU(p, d, params);
    if (bf16 != nullptr) store(d, p, bf16);
  };
  for_vectors(a.n, body, a.grads, a.params, a.sum, a.bf16_params);
}

void Lars(const LarsArgs& a) {
  const V scale = hn::Set(d, a.gradient_scale), decay = hn::Set(d, a.weight_decay), momentum = hn::Set(d, a.momentum),
          minus_lr = hn::Set(d, -a.learning_rate), trust = hn::Set(d, a.trust);
  const auto body = [&](const float* grads, float* params, float* buffer, uint16_t* bf16) CT_UNROLLED {
    V p = hn::LoadU(d, params);
    V g = hn::Mul(trust, hn::MulAdd(decay, p, hn::Mul(hn::LoadU(d, grads), scale)));
    if (buffer != nullptr) {
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

/// LAMB's update of a vector: the same instructions in both passes, for the same bits.
HWY_INLINE V lamb_update(V m, V v, V p, V eps, V decay) {
  return hn::MulAdd(decay, p, hn::Div(m, hn::Add(hn::Sqrt(v), eps)));
}

void LambMoments(const LambMomentsArgs& a) {
  const V b1 = hn::Set(d, a.beta1), c1 = hn::Set(d, a.one_minus_beta1), b2 = hn::Set(d, a.beta2),
          c2 = hn::Set(d, a.one_minus_beta2), eps = hn::Set(d, a.eps), decay = hn::Set(d, a.weight_decay),
          scale = hn::Set(d, a.gradient_scale);
  const auto body = [&](const float* grads, V p, float* exp_avg, float* exp_avg_sq) CT_UNROLLED {
    const V g = hn::Mul(hn::LoadU(d, grads), scale);
    const V m = hn::MulAdd(b1, hn::LoadU(d, exp_avg), hn::Mul(c1, g));
    const V v = hn::MulAdd(b2, hn::LoadU(d, exp_avg_sq), hn::Mul(c2, hn::Mul(g, g)));
    hn::StoreU(m, d, exp_avg);
    hn::StoreU(v, d, exp_avg_sq);
    return lamb_update(m, v, p, eps, decay);
  };
  SquareSum weights, updates;
  int64_t i = 0;
  for (; i + SquareSum::kStep <= a.n; i += SquareSum::kStep) {
    const V p0 = hn::LoadU(d, a.params + i), p1 = hn::LoadU(d, a.params + i + kLanes);
    const V u0 = body(a.grads + i, p0, a.exp_avg + i, a.exp_avg_sq + i);
    const V u1 = body(a.grads + i + kLanes, p1, a.exp_avg + i + kLanes, a.exp_avg_sq + i + kLanes);
    weights.add(p0, p1);
    updates.add(u0, u1);
  }
  float last[SquareSum::kStep];
  for_vectors(
      a.n - i,
      [&](const float* grads, const float* params, float* exp_avg, float* exp_avg_sq, float* to)
          CT_UNROLLED { hn::StoreU(body(grads, hn::LoadU(d, params), exp_avg, exp_avg_sq), d, to); },
      a.grads + i, static_cast<const float*>(a.params + i), a.exp_avg + i, a.exp_avg_sq + i, last);
  *a.weight_sum = weights.total(a.params + i, a.n - i);
  *a.update_sum = updates.total(last, a.n - i);
}

void Lamb(const LambArgs& a) {
  const V eps = hn::Set(d, a.eps), decay = hn::Set(d, a.weight_decay),
          minus_rate = hn::Set(d, -(a.learning_rate * a.trust));
  const auto body = [&](float* params, const float* exp_avg, const float* exp_avg_sq, uint16_t* bf16) CT_UNROLLED {
    V p = hn::LoadU(d, params);
    const V u = lamb_update(hn::LoadU(d, exp_avg), hn::LoadU(d, exp_avg_sq), p, eps, decay);
    p = hn::MulAdd(minus_rate, u, p);
    hn::StoreU(p, d, params);
    if (bf16 != nullptr) store(d, p, bf16);
  };
  for_vectors(a.n, body, a.params, a.exp_avg, a.exp_avg_sq, a.bf16_params);
}

void MuonMomentum(const MuonMomentumArgs& a) {
  const V scale = hn::Set(d, a.gradient_scale), rest = hn::Set(d, a.rest);
  const auto body = [&](float* grads, float* buffer) CT_UNROLLED {
    const V g = hn::Mul(hn::LoadU(d, grads), scale), old = hn::LoadU(d, buffer);
    const V b = hn::MulAdd(rest, hn::Sub(g, old), old);
    hn::StoreU(b, d, buffer);
    hn::StoreU(a.nesterov ? hn::MulAdd(rest, hn::Sub(g, b), b) : b, d, grads);
  };
  for_vectors(a.n, body, a.grads, a.momentum_buffer);
}

void Muon(const UpdateArgs& a) {
  const V decay = hn::Set(d, a.weight_decay), minus_lr = hn::Set(d, -a.learning_rate);
  const auto body = [&](const float* grads, float* params, uint16_t* bf16) CT_UNROLLED {
    V p = hn::LoadU(d, params);
    p = hn::MulAdd(minus_lr, hn::MulAdd(decay, p, hn::LoadU(d, grads)), p);
    hn::StoreU(p, d, params);
    if (bf16 != nullptr) store(d, p, bf16);
  };
  for_vectors(a.n, body, a.grads, a.params, a.bf16_params);
}

void ScaledSum(float a, const float* x, float b, float* y, int64_t n) {
  const V of_x = hn::Set(d, a), of_y = hn::Set(d, b);
  const auto body = [&](const float* from, float* to) CT_UNROLLED {
    hn::StoreU(hn::MulAdd(of_x, hn::LoadU(d, from), hn::Mul(of_y, hn::LoadU(d, to))), d, to);
  };
  for_vectors(n, body, x, y);
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
HWY_EXPORT(Lion);
HWY_EXPORT(Adagrad);
HWY_EXPORT(Lars);
HWY_EXPORT(LambMoments);
HWY_EXPORT(Lamb);
HWY_EXPORT(MuonMomentum);
HWY_EXPORT(Muon);
HWY_EXPORT(ScaledSum);
HWY_EXPORT(Ema);

void adam(const AdamArgs& args) { HWY_DYNAMIC_DISPATCH(Adam)(args); }
void sgd(const SgdArgs& args) { HWY_DYNAMIC_DISPATCH(Sgd)(args); }
void rmsprop(const RmsPropArgs& args) { HWY_DYNAMIC_DISPATCH(RmsProp)(args); }
void lion(const LionArgs& args) { HWY_DYNAMIC_DISPATCH(Lion)(args); }
void adagrad(const AdagradArgs& args) { HWY_DYNAMIC_DISPATCH(Adagrad)(args); }
void lars(const LarsArgs& args) { HWY_DYNAMIC_DISPATCH(Lars)(args); }
void lamb_moments(const LambMomentsArgs& args) { HWY_DYNAMIC_DISPATCH(LambMoments)(args); }
void lamb(const LambArgs& args) { HWY_DYNAMIC_DISPATCH(Lamb)(args); }
void muon_momentum(const MuonMomentumArgs& args) { HWY_DYNAMIC_DISPATCH(MuonMomentum)(args); }
void muon(const UpdateArgs& args) { HWY_DYNAMIC_DISPATCH(Muon)(args); }
void scaled_sum(float a, const float* x, float b, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(ScaledSum)(a, x, b, y, n);
}
void ema(const EmaArgs& args) { HWY_DYNAMIC_DISPATCH(Ema)(args); }
}  // namespace ct::cpu
#endif
