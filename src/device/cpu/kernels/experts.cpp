#include "device/cpu/kernels/experts.h"

#include <algorithm>
#include <cmath>

#include "device/cpu/kernels/linear.h"
#include "device/cpu/kernels/targets.h"
#include "device/cpu/kernels/typed.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/experts.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

constexpr hn::CappedTag<float, 1> d1;

template <class T>
HWY_INLINE void dispatch_pass(const DispatchArgs<T>& a) {
  const int64_t row = padded(a.shape.columns);
  for (int64_t e = 0; e < a.shape.experts; ++e)
    for (int64_t place = 0; place < a.shape.capacity; ++place) {
      T* to = a.to[static_cast<size_t>(e)] + place * row;
      const int64_t choice = a.sources[e * a.shape.capacity + place];
      if (choice < 0) {
        std::fill_n(to, row, T(0));
        continue;
      }
      const T* x = a.x + choice / a.shape.top_k * row;
      if (a.weights == nullptr) {
        std::copy_n(x, row, to);
        continue;
      }
      const V weight = hn::Set(d, a.weights[choice]);
      for (int64_t c = 0; c < row; c += kLanes) store(d, hn::Mul(weight, load(d, x + c)), to + c);
    }
}
CT_TYPED_TARGET(Dispatch, dispatch_pass, DispatchArgs)

/// The row of an expert's results that lies in that slot.
template <class T>
HWY_INLINE const T* row_in(const ExpertsShape& s, const PerExpert<const T>& from, int64_t slot) {
  return from[static_cast<size_t>(slot / s.capacity)] + slot % s.capacity * padded(s.columns);
}

template <class T>
HWY_INLINE void combine_pass(const CombineArgs<T>& a) {
  const int64_t row = padded(a.shape.columns), k = a.shape.top_k;
  for (int64_t i = 0; i < a.shape.rows; ++i) {
    float none = 0;  // what is not finite shows even where it was dropped
    for (int64_t j = i * k; j < (i + 1) * k; ++j)
      if (a.slots[j] < 0 && a.weights != nullptr) none += 0 * a.weights[j];
    T* y = a.y + i * row;
    for (int64_t c = 0; c < row; c += kLanes) {
      V sum = hn::Set(d, none);
      for (int64_t j = i * k; j < (i + 1) * k; ++j) {
        if (a.slots[j] < 0) continue;
        const V weight = hn::Set(d, a.weights == nullptr ? 1.0f : a.weights[j]);
        sum = hn::MulAdd(weight, load(d, row_in(a.shape, a.from, a.slots[j]) + c), sum);
      }
      store(d, sum, y + c);
    }
  }
}
CT_TYPED_TARGET(Combine, combine_pass, CombineArgs)

template <class T>
HWY_INLINE void combine_grad_weights_pass(const CombineGradWeightsArgs<T>& a) {
  const int64_t row = padded(a.shape.columns);
  for (int64_t j = 0; j < a.shape.rows * a.shape.top_k; ++j) {
    V sum = hn::Zero(d);
    if (a.slots[j] >= 0) {
      const T *from = row_in(a.shape, a.from, a.slots[j]), *dy = a.dy + j / a.shape.top_k * row;
      for (int64_t c = 0; c < row; c += kLanes) sum = hn::MulAdd(load(d, from + c), load(d, dy + c), sum);
    }
    a.dweights[j] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}
CT_TYPED_TARGET(CombineGradWeights, combine_grad_weights_pass, CombineGradWeightsArgs)

template <class T>
HWY_INLINE void jitter_pass(const JitterArgs<T>& a) {
  for (int64_t i = 0; i < a.n; ++i)
    store(d1, hn::Mul(load(d1, a.x + i), hn::Set(d1, jitter_factor(*a.key, a.number, i))), a.y + i);
}
CT_TYPED_TARGET(Jitter, jitter_pass, JitterArgs)

/// The softmax of a row's two scores.
struct Shares {
  float a, b;
};
HWY_INLINE Shares shares_of(const float* scores) {
  const float most = std::max(scores[0], scores[1]);
  const float a = std::exp(scores[0] - most), b = std::exp(scores[1] - most);
  return {a / (a + b), b / (a + b)};
}

template <class T>
HWY_INLINE void mix_pass(const SoftmaxMixArgs<T>& a) {
  const int64_t row = padded(a.columns);
  for (int64_t i = 0; i < a.rows; ++i) {
    const Shares shares = shares_of(a.scores + i * padded(2));
    const V of_a = hn::Set(d, shares.a), of_b = hn::Set(d, shares.b);
    for (int64_t c = i * row; c < (i + 1) * row; c += kLanes)
      store(d, hn::MulAdd(of_a, load(d, a.a + c), hn::Mul(of_b, load(d, a.b + c))), a.y + c);
  }
}
CT_TYPED_TARGET(SoftmaxMix, mix_pass, SoftmaxMixArgs)

template <class T>
HWY_INLINE void mix_grad_pass(const SoftmaxMixGradArgs<T>& a) {
  const int64_t row = padded(a.columns);
  for (int64_t i = 0; i < a.rows; ++i) {
    const Shares shares = shares_of(a.scores + i * padded(2));
    const V of_a = hn::Set(d, shares.a), of_b = hn::Set(d, shares.b);
    V sum = hn::Zero(d);
    for (int64_t c = i * row; c < (i + 1) * row; c += kLanes) {
      const V dy = load(d, a.dy + c);
      store(d, hn::Mul(of_a, dy), a.da + c);
      store(d, hn::Mul(of_b, dy), a.db + c);
      sum = hn::MulAdd(dy, hn::Sub(load(d, a.a + c), load(d, a.b + c)), sum);
    }
    const float slope = shares.a * shares.b * hn::GetLane(hn::SumOfLanes(d, sum));
    float* dscores = a.dscores + i * padded(2);
    std::fill_n(dscores, padded(2), 0.0f);
    dscores[0] = slope;
    dscores[1] = -slope;
  }
}
CT_TYPED_TARGET(SoftmaxMixGrad, mix_grad_pass, SoftmaxMixGradArgs)

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
CT_TYPED_KERNEL(dispatch, Dispatch, DispatchArgs)
CT_TYPED_KERNEL(combine, Combine, CombineArgs)
CT_TYPED_KERNEL(combine_grad_weights, CombineGradWeights, CombineGradWeightsArgs)
CT_TYPED_KERNEL(jitter, Jitter, JitterArgs)
CT_TYPED_KERNEL(softmax_mix, SoftmaxMix, SoftmaxMixArgs)
CT_TYPED_KERNEL(softmax_mix_grad, SoftmaxMixGrad, SoftmaxMixGradArgs)
}  // namespace ct::cpu
#endif
