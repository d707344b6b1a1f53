#include "device/cpu/kernels/optimizer.h"

#include <cmath>
#include <cstring>
#include <utility>

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

/// A vector as the rules' formulas take it.
struct Register {
  V v;
  HWY_INLINE Register(V v) : v(v) {}
  HWY_INLINE explicit Register(float x) : v(hn::Set(d, x)) {}
};
HWY_INLINE Register operator+(Register a, Register b) { return hn::Add(a.v, b.v); }
HWY_INLINE Register operator-(Register a, Register b) { return hn::Sub(a.v, b.v); }
HWY_INLINE Register operator*(Register a, Register b) { return hn::Mul(a.v, b.v); }
HWY_INLINE Register operator/(Register a, Register b) { return hn::Div(a.v, b.v); }
HWY_INLINE Register operator-(Register a) { return hn::Neg(a.v); }
HWY_INLINE Register fma(Register a, Register b, Register c) { return hn::MulAdd(a.v, b.v, c.v); }
HWY_INLINE Register sqrt(Register a) { return hn::Sqrt(a.v); }
HWY_INLINE Register not_negative(Register a) { return hn::Max(a.v, hn::Zero(d)); }
HWY_INLINE Register sign(Register a) {
  return hn::IfThenElse(hn::Gt(hn::Abs(a.v), hn::Zero(d)), hn::CopySign(hn::Set(d, 1.0f), a.v), a.v);
}

#define CT_RULE HWY_INLINE
#include "graph/optimizer_rules-inl.h"

template <class Rule, int kForm, bool kBf16, size_t... I>
HWY_INLINE void update_pass(const UpdateArgs& a, const StepScalars& s, std::index_sequence<I...>) {
  constexpr auto kKept = rules::kept_states<Rule>(kForm);
  using State = std::conditional_t<Rule::kWritesStates, float, const float>;
  const auto formula = Formula<Rule, kForm>::of(std::get<Rule>(a.rule), rules::coefficients_in<Rule>(s.coefficients));
  const StepNumbers step = step_of<Rule>(s, a.weight_decay, a.lr_scale, Rule::kTrusted ? *a.trust : 1);
  const Register scale(static_cast<float>(s.grad_scale));
  const auto body = [&](const float* grads, float* params, uint16_t* bf16, auto*... states) CT_UNROLLED {
    Register g(hn::Zero(d)), w(hn::LoadU(d, params));
    if constexpr (Rule::kReadsGradients) g = hn::LoadU(d, grads);
    if constexpr (Rule::kReadsGradients && Rule::kScalesGradients) g = g * scale;
    typename Rule::template States<Register> values{(kKept[I] ? hn::LoadU(d, states) : hn::Zero(d))...};
    formula(step, g, w, values);
    if constexpr (Rule::kWritesStates)
      ((kKept[I] ? hn::StoreU(reinterpret_cast<const Register*>(&values)[I].v, d, states) : void()), ...);
    hn::StoreU(w.v, d, params);
    if constexpr (kBf16) store(d, w.v, bf16);
  };
  for_vectors(a.n, body, a.grads, a.params, kBf16 ? a.bf16_params : nullptr, static_cast<State*>(a.states[I])...);
}

template <class Rule, int kForm>
HWY_INLINE void update_of_form(const UpdateArgs& a, const StepScalars& s) {
  constexpr auto kStates = std::make_index_sequence<Rule::kStates.size()>();
  if (a.bf16_params != nullptr)
    update_pass<Rule, kForm, /*kBf16=*/true>(a, s, kStates);
  else
    update_pass<Rule, kForm, /*kBf16=*/false>(a, s, kStates);
}

template <class Rule>
HWY_INLINE void update_by(const Rule& rule, const UpdateArgs& a, const StepScalars& s) {
  unroll<Rule::kForms>([&](auto form) CT_UNROLLED {
    if (rule.form == form) update_of_form<Rule, form>(a, s);
  });
}

template <size_t... I>
HWY_INLINE void update_by_any(const UpdateArgs& a, const StepScalars& s, std::index_sequence<I...>) {
  ((a.rule.index() == I ? update_by(*std::get_if<I>(&a.rule), a, s) : void()), ...);
}
void Update(const UpdateArgs& a, const StepScalars& s) {
  update_by_any(a, s, std::make_index_sequence<std::variant_size_v<rules::Any>>());
}

void LambMoments(const LambMomentsArgs& a, const StepScalars& s) {
  const auto formula = LambMomentsFormula::of(a.eps, rules::coefficients_in<rules::Lamb>(s.coefficients));
  const Register scale(static_cast<float>(s.grad_scale));
  const auto body = [&](const float* grads, V p, float* exp_avg, float* exp_avg_sq) CT_UNROLLED {
    Register m(hn::LoadU(d, exp_avg)), v(hn::LoadU(d, exp_avg_sq));
    const Register u = formula(a.weight_decay, Register(hn::LoadU(d, grads)) * scale, Register(p), m, v);
    hn::StoreU(m.v, d, exp_avg);
    hn::StoreU(v.v, d, exp_avg_sq);
    return u.v;
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
      a.grads + i, a.params + i, a.exp_avg + i, a.exp_avg_sq + i, last);
  *a.weight_sum = weights.total(a.params + i, a.n - i);
  *a.update_sum = updates.total(last, a.n - i);
}

void MuonMomentum(const MuonMomentumArgs& a) {
  const Register scale(a.gradient_scale);
  const auto body = [&](float* grads, float* buffer) CT_UNROLLED {
    Register b(hn::LoadU(d, buffer));
    const Register direction = muon_direction(a.rest, a.nesterov, Register(hn::LoadU(d, grads)) * scale, b);
    hn::StoreU(b.v, d, buffer);
    hn::StoreU(direction.v, d, grads);
  };
  for_vectors(a.n, body, a.grads, a.momentum_buffer);
}

void ScaledSum(float a, const float* x, float b, float* y, int64_t n) {
  const V of_x = hn::Set(d, a), of_y = hn::Set(d, b);
  const auto body = [&](const float* from, float* to) CT_UNROLLED {
    hn::StoreU(hn::MulAdd(of_x, hn::LoadU(d, from), hn::Mul(of_y, hn::LoadU(d, to))), d, to);
  };
  for_vectors(n, body, x, y);
}

void Ema(const EmaArgs& a) {
  const auto body = [&](const float* params, float* average) CT_UNROLLED {
    hn::StoreU(moving_average(a.rest, Register(hn::LoadU(d, params)), Register(hn::LoadU(d, average))).v, d, average);
  };
  for_vectors(a.n, body, a.params, a.average);
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(Update);
HWY_EXPORT(LambMoments);
HWY_EXPORT(MuonMomentum);
HWY_EXPORT(ScaledSum);
HWY_EXPORT(Ema);

void update(const UpdateArgs& args, const StepScalars& scalars) { HWY_DYNAMIC_DISPATCH(Update)(args, scalars); }
void lamb_moments(const LambMomentsArgs& args, const StepScalars& scalars) {
  HWY_DYNAMIC_DISPATCH(LambMoments)(args, scalars);
}
void muon_momentum(const MuonMomentumArgs& args) { HWY_DYNAMIC_DISPATCH(MuonMomentum)(args); }
void scaled_sum(float a, const float* x, float b, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(ScaledSum)(a, x, b, y, n);
}
void ema(const EmaArgs& args) { HWY_DYNAMIC_DISPATCH(Ema)(args); }
}  // namespace ct::cpu
#endif
