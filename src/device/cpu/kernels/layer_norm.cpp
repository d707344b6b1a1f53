#include "device/cpu/kernels/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "device/cpu/kernels/linear.h"
#include "device/cpu/kernels/targets.h"
#include "device/cpu/kernels/typed.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/layer_norm.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

constexpr int kChains = 4;            // sums of a row side by side: an addition takes as many cycles
constexpr int kRows = kWide ? 4 : 2;  // rows of a gradient's block, for which dw and db are read and written once
constexpr int64_t kRun = 64;          // rows whose gradients of w and b are summed in f32

/// Which of a row's vector lie before its end: all, or those of a mask.
struct Whole {
  HWY_INLINE V operator()(V v) const { return v; }
};
struct Part {
  hn::Mask<D> mask;
  HWY_INLINE V operator()(V v) const { return hn::IfThenElseZero(mask, v); }
};

/// body(within, column) for a row's vectors; within(v) is v with zeros for what lies in the pads.
template <class Body>
HWY_INLINE void for_row(int64_t columns, Body&& body) {
  int64_t i = 0;
  for (; i + kLanes <= columns; i += kLanes) body(Whole(), i);
  if (i < columns) body(Part{hn::FirstN(d, static_cast<size_t>(columns - i))}, i);
}

/// The sum over a row of element(within, column).
template <class Element>
HWY_INLINE float sum_of_row(int64_t columns, Element&& element) {
  V sums[kChains];
  unroll<kChains>([&](auto c) CT_UNROLLED { sums[c] = hn::Zero(d); });
  int64_t i = 0;
  for (; i + kChains * kLanes <= columns; i += kChains * kLanes)
    unroll<kChains>([&](auto c) CT_UNROLLED { sums[c] = hn::Add(sums[c], element(Whole(), i + c * kLanes)); });
  for (; i + kLanes <= columns; i += kLanes) sums[0] = hn::Add(sums[0], element(Whole(), i));
  if (i < columns) sums[1] = hn::Add(sums[1], element(Part{hn::FirstN(d, static_cast<size_t>(columns - i))}, i));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
}

/// The pads behind a row's last vector.
template <class T>
HWY_INLINE void zero_pads(T* row, int64_t columns) {
  std::fill(row + (columns + kLanes - 1) / kLanes * kLanes, row + padded(columns), T(0));
}

/// Stores v, and returns what is there then.
template <bool PastCaches>
HWY_INLINE V stored(V v, float* to) {
  store<PastCaches>(d, v, to);
  return v;
}
template <bool PastCaches>
HWY_INLINE V stored(V v, uint16_t* to) {
  const V rounded = from_bf16(d, to_bf16(d, v));
  store<PastCaches>(d, rounded, to);
  return rounded;
}

template <bool PastCaches, bool Residual, class T>
HWY_INLINE void forward_pass(const LayerNormArgs<T>& a) {
  const int64_t columns = a.shape.columns, stride = padded(columns);
  const auto count = static_cast<float>(columns);
  float* row = a.workspace;
  for (int64_t r = 0; r < a.shape.rows; ++r) {
    const T *x = a.x + r * stride, *residual = Residual ? a.residual + r * stride : nullptr;
    T *sum = Residual ? a.sum + r * stride : nullptr, *y = a.y + r * stride;
    const float mean = sum_of_row(columns,
                                  [&](auto, int64_t i) CT_UNROLLED {
                                    V v = load(d, x + i);
                                    if constexpr (Residual) {
                                      v = stored<PastCaches>(hn::Add(v, load(d, residual + i)), sum + i);
                                    }
                                    hn::Store(v, d, row + i);
                                    return v;
                                  }) /
                       count;
    const V centre = hn::Set(d, mean);
    const float var = sum_of_row(columns,
                                 [&](auto within, int64_t i) CT_UNROLLED {
                                   const V v = within(hn::Sub(hn::Load(d, row + i), centre));
                                   hn::Store(v, d, row + i);
                                   return hn::Mul(v, v);
                                 }) /
                      count;
    const auto rstd = static_cast<float>(1 / std::sqrt(var + a.eps));
    const V scale = hn::Set(d, rstd);
    for_row(columns, [&](auto within, int64_t i) CT_UNROLLED {
      const V n = hn::Mul(hn::Load(d, row + i), scale);
      store<PastCaches>(d, within(hn::MulAdd(n, hn::LoadU(d, a.w + i), hn::LoadU(d, a.b + i))), y + i);
    });
    if constexpr (Residual) zero_pads(sum, columns);
    zero_pads(y, columns);
    if (a.mean != nullptr) a.mean[r] = mean;
    if (a.rstd != nullptr) a.rstd[r] = rstd;
  }
}

template <class T>
HWY_INLINE void forward(const LayerNormArgs<T>& a) {
  const bool past = past_caches(a.y, a.shape.rows * padded(a.shape.columns));
  if (a.residual != nullptr)
    past ? forward_pass<true, true>(a) : forward_pass<false, true>(a);
  else
    past ? forward_pass<true, false>(a) : forward_pass<false, false>(a);
  if (past) hwy::FlushStream();
}

/// Gradients of Rows rows from `first` on; those of w and b are added to dw and db.
template <int Rows, bool PastCaches, bool AddsSum, class T>
HWY_INLINE void grad_rows(const LayerNormGradArgs<T>& a, int64_t first, float* HWY_RESTRICT dw,
                          float* HWY_RESTRICT db) {
  const int64_t columns = a.shape.columns, stride = padded(columns);
  const T *x = a.x + first * stride, *dy = a.dy + first * stride;
  V mean[Rows], rstd[Rows], g_sum[Rows], gn_sum[Rows];
  unroll<Rows>([&](auto r) CT_UNROLLED {
    mean[r] = hn::Set(d, a.mean[first + r]);
    rstd[r] = hn::Set(d, a.rstd[first + r]);
    g_sum[r] = gn_sum[r] = hn::Zero(d);
  });
  for_row(columns, [&](auto within, int64_t i) CT_UNROLLED {
    const V w = within(hn::LoadU(d, a.w + i));
    V w_sum = hn::Load(d, dw + i), b_sum = hn::Load(d, db + i);
    unroll<Rows>([&](auto r) CT_UNROLLED {
      const V n = hn::Mul(hn::Sub(load(d, x + r * stride + i), mean[r]), rstd[r]), z = load(d, dy + r * stride + i);
      w_sum = hn::MulAdd(z, n, w_sum);
      b_sum = hn::Add(b_sum, z);
      const V g = hn::Mul(z, w);
      g_sum[r] = hn::Add(g_sum[r], g);
      gn_sum[r] = hn::MulAdd(g, n, gn_sum[r]);
    });
    hn::Store(w_sum, d, dw + i);
    hn::Store(b_sum, d, db + i);
  });
  if (a.dx == nullptr) return;
  const V per = hn::Set(d, 1.0f / static_cast<float>(columns));
  unroll<Rows>([&](auto r) CT_UNROLLED {
    g_sum[r] = hn::Mul(hn::SumOfLanes(d, g_sum[r]), per);
    gn_sum[r] = hn::Mul(hn::SumOfLanes(d, gn_sum[r]), per);
  });
  T* dx = a.dx + first * stride;
  for_row(columns, [&](auto within, int64_t i) CT_UNROLLED {
    const V w = hn::LoadU(d, a.w + i);
    unroll<Rows>([&](auto r) CT_UNROLLED {
      const int64_t at = r * stride + i;
      const V n = hn::Mul(hn::Sub(load(d, x + at), mean[r]), rstd[r]);
      const V g = hn::Sub(hn::Mul(load(d, dy + at), w), hn::MulAdd(n, gn_sum[r], g_sum[r]));
      V result = hn::Mul(g, rstd[r]);
      if constexpr (AddsSum) result = hn::Add(result, load(d, a.dsum + first * stride + at));
      store<PastCaches>(d, within(result), dx + at);
    });
  });
  unroll<Rows>([&](auto r) CT_UNROLLED { zero_pads(dx + r * stride, columns); });
}

template <bool PastCaches, bool AddsSum, class T>
HWY_INLINE void backward_pass(const LayerNormGradArgs<T>& a) {
  const int64_t columns = a.shape.columns, stride = padded(columns), rows = a.shape.rows;
  float *dw = a.workspace, *db = dw + stride;  // of a run
  auto *dw_sum = reinterpret_cast<double*>(db + stride), *db_sum = dw_sum + columns;
  std::fill_n(dw_sum, 2 * columns, 0.0);
  for (int64_t begin = 0; begin < rows; begin += kRun) {
    const int64_t end = std::min(rows, begin + kRun);
    std::fill_n(dw, 2 * stride, 0.0f);
    int64_t r = begin;
    for (; r + kRows <= end; r += kRows) grad_rows<kRows, PastCaches, AddsSum>(a, r, dw, db);
    for (; r < end; ++r) grad_rows<1, PastCaches, AddsSum>(a, r, dw, db);
    for (int64_t c = 0; c < columns; ++c) {
      dw_sum[c] += static_cast<double>(dw[c]);
      db_sum[c] += static_cast<double>(db[c]);
    }
  }
  for (int64_t c = 0; c < columns; ++c) {
    a.dw[c] = static_cast<float>(dw_sum[c]);
    a.db[c] = static_cast<float>(db_sum[c]);
  }
}

template <class T>
HWY_INLINE void backward(const LayerNormGradArgs<T>& a) {
  const bool past = a.dx != nullptr && past_caches(a.dx, a.shape.rows * padded(a.shape.columns));
  if (a.dsum != nullptr)
    past ? backward_pass<true, true>(a) : backward_pass<false, true>(a);
  else
    past ? backward_pass<true, false>(a) : backward_pass<false, false>(a);
  if (past) hwy::FlushStream();
}

CT_TYPED_TARGET(Forward, forward, LayerNormArgs)
CT_TYPED_TARGET(Backward, backward, LayerNormGradArgs)

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
CT_TYPED_KERNEL(layer_norm, Forward, LayerNormArgs)
CT_TYPED_KERNEL(layer_norm_grad, Backward, LayerNormGradArgs)

size_t layer_norm_workspace(const LayerNormShape& shape) {
  return static_cast<size_t>(padded(shape.columns)) * 2 * (sizeof(float) + sizeof(double));
}
}  // namespace ct::cpu
#endif
