#include "device/cpu/kernels/sequence_pool.h"

#include <algorithm>
#include <cmath>

#include "device/cpu/kernels/linear.h"
#include "device/cpu/kernels/targets.h"
#include "device/cpu/kernels/typed.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/sequence_pool.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

constexpr int64_t kScoreRow = 16;  // elements from one token's score to the next one's
constexpr hn::CappedTag<float, 1> d1;

template <class T>
HWY_INLINE float read(const T* x) {
  return hn::GetLane(load(d1, x));
}
template <class T>
HWY_INLINE void write(float value, T* x) {
  store(d1, hn::Set(d1, value), x);
}

/// p = softmax of an image's scores: few numbers beside all that is read of x.
template <class T>
HWY_INLINE void softmax(const T* score, int64_t tokens, float* p) {
  float most = read(score), sum = 0;
  for (int64_t t = 1; t < tokens; ++t) most = std::max(most, read(score + t * kScoreRow));
  for (int64_t t = 0; t < tokens; ++t) sum += p[t] = std::exp(read(score + t * kScoreRow) - most);
  for (int64_t t = 0; t < tokens; ++t) p[t] /= sum;
}

template <class T>
HWY_INLINE void pool(const SequencePoolArgs<T>& a) {
  const auto [n, tokens, channels] = a.shape;
  const int64_t row = padded(channels);  // pads are zero and stay so
  for (int64_t i = 0; i < n; ++i) {
    const T* x = a.x + i * tokens * row;
    softmax(a.score + i * tokens * kScoreRow, tokens, a.workspace);
    for (int64_t c = 0; c < row; c += kLanes) {
      V sum = hn::Zero(d);
      for (int64_t t = 0; t < tokens; ++t) sum = hn::MulAdd(hn::Set(d, a.workspace[t]), load(d, x + t * row + c), sum);
      store(d, sum, a.y + i * row + c);
    }
  }
}
CT_TYPED_TARGET(Pool, pool, SequencePoolArgs)

template <class T>
HWY_INLINE void pool_grad(const SequencePoolGradArgs<T>& a) {
  const auto [n, tokens, channels] = a.shape;
  const int64_t row = padded(channels);
  float *p = a.workspace, *g = p + padded(tokens), *dy = g + padded(tokens);
  for (int64_t i = 0; i < n; ++i) {
    const T* x = a.x + i * tokens * row;
    T* dx = a.dx + i * tokens * row;
    softmax(a.score + i * tokens * kScoreRow, tokens, p);
    for (int64_t c = 0; c < row; c += kLanes) hn::StoreU(load(d, a.dy + i * row + c), d, dy + c);
    float mean = 0;
    for (int64_t t = 0; t < tokens; ++t) {
      V sum = hn::Zero(d);
      const V weight = hn::Set(d, p[t]);
      for (int64_t c = 0; c < row; c += kLanes) {
        const V grad = hn::LoadU(d, dy + c);
        sum = hn::MulAdd(load(d, x + t * row + c), grad, sum);
        store(d, hn::Mul(weight, grad), dx + t * row + c);
      }
      g[t] = hn::GetLane(hn::SumOfLanes(d, sum));
      mean += p[t] * g[t];
    }
    T* dscore = a.dscore + i * tokens * kScoreRow;
    std::fill_n(dscore, tokens * kScoreRow, T(0));
    for (int64_t t = 0; t < tokens; ++t) write(p[t] * (g[t] - mean), dscore + t * kScoreRow);
  }
}
CT_TYPED_TARGET(PoolGrad, pool_grad, SequencePoolGradArgs)

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {

size_t sequence_pool_workspace(const SequencePoolShape& s) {
  return static_cast<size_t>(2 * padded(s.tokens) + padded(s.channels));
}
CT_TYPED_KERNEL(sequence_pool, Pool, SequencePoolArgs)
CT_TYPED_KERNEL(sequence_pool_grad, PoolGrad, SequencePoolGradArgs)
}  // namespace ct::cpu
#endif
