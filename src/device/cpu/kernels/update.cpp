#include "device/cpu/kernels/update.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/update.cpp"
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
  const AdamScalars& s = a.scalars;
  const V b1 = hn::Set(d, s.beta1), c1 = hn::Set(d, s.one_minus_beta1), b2 = hn::Set(d, s.beta2),
          c2 = hn::Set(d, s.one_minus_beta2), eps = hn::Set(d, s.eps), decay = hn::Set(d, s.weight_decay),
          minus_lr = hn::Set(d, -s.learning_rate), scale = hn::Set(d, s.gradient_scale),
          correct1 = hn::Set(d, s.bias_correction1), correct2 = hn::Set(d, s.sqrt_bias_correction2);
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
  if (a.scalars.decoupled) return bf16 ? adam_pass<true, true>(a) : adam_pass<true, false>(a);
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
#if HWY_ARCH_X86
#include <xmmintrin.h>
#endif

namespace ct::cpu {
HWY_EXPORT(Adam);
HWY_EXPORT(Sgd);
HWY_EXPORT(SumOfSquares);
HWY_EXPORT(TreeAdd);

void adam(const AdamArgs& args) { HWY_DYNAMIC_DISPATCH(Adam)(args); }
void sgd(const SgdArgs& args) { HWY_DYNAMIC_DISPATCH(Sgd)(args); }
void sum_of_squares(const float* x, int64_t n, double* sums) { HWY_DYNAMIC_DISPATCH(SumOfSquares)(x, n, sums); }
void tree_add(const float* x, std::span<const float* const> levels, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(TreeAdd)(x, levels, out, n);
}

void flush_denormals_in_this_thread() {
#if HWY_ARCH_X86
  _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, denormals are zero
#elif HWY_ARCH_ARM_A64
  uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  asm volatile("msr fpcr, %0" : : "r"(fpcr | (uint64_t{1} << 24)));
#endif
}
}  // namespace ct::cpu
#endif
