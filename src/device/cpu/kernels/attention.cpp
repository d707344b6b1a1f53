#include "device/cpu/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "device/cpu/kernels/linear.h"
#include "device/cpu/kernels/targets.h"
#include "device/cpu/kernels/typed.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/attention.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "hwy/contrib/math/math-inl.h"
//
#include "device/cpu/kernels/simd-inl.h"
#include "device/cpu/kernels/small_product-inl.h"

#ifndef CT_ATTENTION_ONCE_
#define CT_ATTENTION_ONCE_
namespace ct::cpu {

/// What scratch holds of a head: matrices of one row per token, and the weights of as many tokens as a tile of the
/// second-level cache takes, to all tokens.
struct HeadSizes {
  explicit HeadSizes(const AttentionShape& s)
      : row(padded(s.width)),
        weights_row(padded(s.tokens)),
        matrix(s.tokens * row),
        panels(weights_row * row),
        tile(std::min(s.tokens, std::max<int64_t>(kTile / weights_row, 12))),
        weights(tile * weights_row),
        few(2 * row) {}
  static constexpr int64_t kTile = 24576;  // floats
  int64_t row, weights_row;
  int64_t matrix, panels;  // a matrix as it is, and transposed
  int64_t tile, weights;   // rows of a tile, floats of its weights
  int64_t few;             // tokens that are not transposed
};

/// Pieces of the workspace, one after the other.
class Pieces {
 public:
  explicit Pieces(float* at) : at_(at) {}
  float* take(int64_t floats) {
    float* begin = at_;
    at_ += padded(floats);
    return begin;
  }

 private:
  float* at_;
};

}  // namespace ct::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

/// x[0 .. width) * scale to padded rows.
template <class T>
HWY_INLINE void take_rows(const T* x, int64_t stride, int64_t rows, int64_t width, float scale, float* to) {
  const V factor = hn::Set(d, scale);
  for (int64_t r = 0; r < rows; ++r, x += stride, to += padded(width)) {
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) hn::StoreU(hn::Mul(load(d, x + i), factor), d, to + i);
    for (; i < padded(width); i += kLanes) {
      const auto inside = hn::FirstN(d, static_cast<size_t>(std::max<int64_t>(width - i, 0)));
      hn::StoreU(hn::IfThenElseZero(inside, hn::Mul(load(d, x + i), factor)), d, to + i);
    }
  }
}
template <class T>
HWY_INLINE void give_row(const float* from, int64_t width, float scale, T* to) {
  for_elements(width, [&](auto dv, int64_t i)
                          CT_UNROLLED { store(dv, hn::Mul(hn::LoadU(dv, from + i), hn::Set(dv, scale)), to + i); });
}
template <class T>
HWY_INLINE void zero_pads(T* x, int64_t rows, int64_t columns) {
  const int64_t stride = padded(columns);
  if (stride == columns) return;
  for (int64_t r = 0; r < rows; ++r) std::fill(x + r * stride + columns, x + (r + 1) * stride, T(0));
}

HWY_INLINE int64_t vectors_of(int64_t n) { return (n + kLanes - 1) / kLanes; }

/// Of tokens that are the columns of a product, how many are transposed into vectors: one or two behind whole vectors,
/// such as a class token, would take a vector of each row, and are multiplied one by one.
HWY_INLINE int64_t in_vectors(int64_t tokens) {
  const int64_t rest = tokens % kLanes;
  return rest <= kLanes / 8 ? tokens - rest : tokens;
}
/// c[i][j] = a[i] . b[j], of padded rows.
HWY_INLINE void few_columns(int64_t rows, int64_t columns, int64_t row, const float* a, const float* b, float* c,
                            int64_t c_stride) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      V sum = hn::Zero(d);
      for (int64_t k = 0; k < row; k += kLanes)
        sum = hn::MulAdd(hn::LoadU(d, a + i * row + k), hn::LoadU(d, b + j * row + k), sum);
      c[i * c_stride + j] = hn::GetLane(hn::SumOfLanes(d, sum));
    }
}

/// body(i, logits) for the vectors of a row of logits. Of what fills up the last one, and of the token itself (`self`;
/// -1: that counts), no weight comes: minus infinity.
template <class Body>
HWY_INLINE void for_logits(const float* row, int64_t tokens, int64_t self, Body&& body) {
  const V never = hn::Set(d, -std::numeric_limits<float>::infinity()), lane = hn::Iota(d, 0);
  V self_lane = hn::Set(d, static_cast<float>(self));
  int64_t i = 0;
  for (; i + kLanes <= tokens; i += kLanes, self_lane = hn::Sub(self_lane, hn::Set(d, kLanes)))
    body(i, hn::IfThenElse(hn::Eq(lane, self_lane), never, hn::LoadU(d, row + i)));
  if (i == tokens) return;
  const auto inside = hn::FirstN(d, static_cast<size_t>(tokens - i));
  body(i, hn::IfThenElse(hn::And(inside, hn::Ne(lane, self_lane)), hn::LoadU(d, row + i), never));
}

// What is done to the rows of a tile, one pass after the other: a row waits for a sum over lanes, and the next one with
// it, if both were done at once.

HWY_INLINE float largest_of(const float* row, int64_t tokens, int64_t self) {
  V most = hn::Set(d, -std::numeric_limits<float>::infinity());
  for_logits(row, tokens, self, [&](int64_t, V logits) CT_UNROLLED { most = hn::Max(most, logits); });
  return hn::GetLane(hn::MaxOfLanes(d, most));
}
/// Logits become exp(logit - largest), whose sum this is.
HWY_INLINE float exponentials(float* row, int64_t tokens, int64_t self, float largest) {
  const V most = hn::Set(d, largest);
  V sum = hn::Zero(d);
  for_logits(row, tokens, self, [&](int64_t i, V logits) CT_UNROLLED {
    const V weights = exp(d, hn::Sub(logits, most));
    hn::StoreU(weights, d, row + i);
    sum = hn::Add(sum, weights);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

template <class T>
void forward(const AttentionArgs<T>& a) {
  const AttentionShape& s = a.shape;
  const HeadSizes size(s);
  Pieces scratch(a.workspace);
  float *q = scratch.take(size.matrix), *keys = scratch.take(size.panels), *v = scratch.take(size.matrix);
  float *weights = scratch.take(size.weights), *sums = scratch.take(size.tile), *largest = scratch.take(size.tile);
  float *result = scratch.take(size.tile * size.row), *last_keys = scratch.take(size.few);
  const float scale = a.temperature == nullptr ? a.scale : std::exp(*a.temperature);
  const int64_t all = s.heads * s.width, from = padded(3 * all), to = padded(all);
  const int64_t whole = in_vectors(s.tokens);
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t h = 0; h < s.heads; ++h) {
      const T* qkv = a.qkv + n * s.tokens * from + h * s.width;
      take_rows(qkv, from, s.tokens, s.width, scale, q);
      transpose_to_panels(qkv + all, from, whole, s.width, keys, size.row);
      take_rows(qkv + all + whole * from, from, s.tokens - whole, s.width, 1.0f, last_keys);
      take_rows(qkv + 2 * all, from, s.tokens, s.width, 1.0f, v);
      for (int64_t first = 0; first < s.tokens; first += size.tile) {
        const int64_t rows = std::min(size.tile, s.tokens - first);
        small_product<RightSide::panels>({.rows = rows,
                                          .depth = s.width,
                                          .vectors = vectors_of(whole),
                                          .a = q + first * size.row,
                                          .a_stride = size.row,
                                          .b = keys,
                                          .b_stride = size.row,
                                          .c = weights,
                                          .c_stride = size.weights_row});
        few_columns(rows, s.tokens - whole, size.row, q + first * size.row, last_keys, weights + whole,
                    size.weights_row);
        const auto self = [&](int64_t i) { return s.mask_diagonal ? first + i : -1; };
        for (int64_t i = 0; i < rows; ++i) largest[i] = largest_of(weights + i * size.weights_row, s.tokens, self(i));
        for (int64_t i = 0; i < rows; ++i)
          sums[i] = exponentials(weights + i * size.weights_row, s.tokens, self(i), largest[i]);
        small_product<RightSide::rows>({.rows = rows,
                                        .depth = s.tokens,
                                        .vectors = size.row / kLanes,
                                        .a = weights,
                                        .a_stride = size.weights_row,
                                        .b = v,
                                        .b_stride = size.row,
                                        .c = result,
                                        .c_stride = size.row});
        T* y = a.y + (n * s.tokens + first) * to + h * s.width;
        for (int64_t i = 0; i < rows; ++i) give_row(result + i * size.row, s.width, 1 / sums[i], y + i * to);
        if (a.log_sum_exp == nullptr) continue;
        float* log_sum_exp = a.log_sum_exp + (n * s.heads + h) * s.tokens + first;
        for_elements(rows, [&](auto dv, int64_t i) CT_UNROLLED {
          hn::StoreU(hn::Add(hn::LoadU(dv, largest + i), hn::Log(dv, hn::LoadU(dv, sums + i))), dv, log_sum_exp + i);
        });
      }
    }
  zero_pads(a.y, s.n * s.tokens, all);
}
CT_TYPED_TARGET(Forward, forward, AttentionArgs)

/// Logits become weights p; the sum of p * dp.
HWY_INLINE float weights_again(float* row, const float* grads, int64_t tokens, int64_t self, float log_sum_exp) {
  const V log_sum = hn::Set(d, log_sum_exp);
  V sum = hn::Zero(d);
  for_logits(row, tokens, self, [&](int64_t i, V logits) CT_UNROLLED {
    const V weights = exp(d, hn::Sub(logits, log_sum));
    hn::StoreU(weights, d, row + i);
    sum = hn::MulAdd(weights, hn::LoadU(d, grads + i), sum);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}
/// The weights' gradients dp become the logits': p * (dp - mean).
HWY_INLINE void grad_of_logits(const float* weights, float* grads, int64_t vectors, float mean) {
  const V subtracted = hn::Set(d, mean);
  for (int64_t v = 0; v < vectors; ++v) {
    const V grad = hn::Sub(hn::LoadU(d, grads + v * kLanes), subtracted);
    hn::StoreU(hn::Mul(hn::LoadU(d, weights + v * kLanes), grad), d, grads + v * kLanes);
  }
}

template <class T>
void backward(const AttentionGradArgs<T>& a) {
  const AttentionShape& s = a.shape;
  const HeadSizes size(s);
  Pieces scratch(a.workspace);
  float *q = scratch.take(size.matrix), *k = scratch.take(size.matrix), *dy = scratch.take(size.matrix);
  float *keys = scratch.take(size.panels), *values = scratch.take(size.panels);
  float *weights = scratch.take(size.weights), *grads = scratch.take(size.weights);
  float *dq = scratch.take(size.tile * size.row), *dk = scratch.take(size.matrix), *dv = scratch.take(size.matrix);
  const float scale = a.temperature == nullptr ? a.scale : std::exp(*a.temperature);
  const int64_t all = s.heads * s.width, stride = padded(3 * all), dy_stride = padded(all);
  float *last_values = scratch.take(size.few), *means = scratch.take(size.tile);
  const int64_t vectors = vectors_of(s.tokens), whole = in_vectors(s.tokens);
  std::fill_n(grads, size.weights, 0.0f);  // what fills up rows: weights of 0 are multiplied by it
  double dtemperature = 0;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t h = 0; h < s.heads; ++h) {
      const T* qkv = a.qkv + n * s.tokens * stride + h * s.width;
      take_rows(qkv, stride, s.tokens, s.width, scale, q);
      take_rows(qkv + all, stride, s.tokens, s.width, 1.0f, k);
      transpose_to_panels(qkv + all, stride, whole, s.width, keys, size.row);
      transpose_to_panels(qkv + 2 * all, stride, whole, s.width, values, size.row);
      take_rows(qkv + 2 * all + whole * stride, stride, s.tokens - whole, s.width, 1.0f, last_values);
      take_rows(a.dy + n * s.tokens * dy_stride + h * s.width, dy_stride, s.tokens, s.width, 1.0f, dy);
      const float* log_sum_exp = a.log_sum_exp + (n * s.heads + h) * s.tokens;
      T* dqkv = a.dqkv + n * s.tokens * stride + h * s.width;
      for (int64_t first = 0; first < s.tokens; first += size.tile) {
        const int64_t rows = std::min(size.tile, s.tokens - first);
        SmallProduct to_weights{.rows = rows,
                                .depth = s.width,
                                .vectors = vectors_of(whole),
                                .a = q + first * size.row,
                                .a_stride = size.row,
                                .b = keys,
                                .b_stride = size.row,
                                .c = weights,
                                .c_stride = size.weights_row};
        small_product<RightSide::panels>(to_weights);
        to_weights.a = dy + first * size.row;
        to_weights.b = values;
        to_weights.c = grads;
        small_product<RightSide::panels>(to_weights);
        few_columns(rows, s.tokens - whole, size.row, q + first * size.row, k + whole * size.row, weights + whole,
                    size.weights_row);
        few_columns(rows, s.tokens - whole, size.row, dy + first * size.row, last_values, grads + whole,
                    size.weights_row);
        for (int64_t i = 0; i < rows; ++i)
          means[i] = weights_again(weights + i * size.weights_row, grads + i * size.weights_row, s.tokens,
                                   s.mask_diagonal ? first + i : -1, log_sum_exp[first + i]);
        for (int64_t i = 0; i < rows; ++i)
          grad_of_logits(weights + i * size.weights_row, grads + i * size.weights_row, vectors, means[i]);

        const SmallProduct to_queries{.rows = rows,
                                      .depth = s.tokens,
                                      .vectors = size.row / kLanes,
                                      .a = grads,
                                      .a_stride = size.weights_row,
                                      .b = k,
                                      .b_stride = size.row,
                                      .c = dq,
                                      .c_stride = size.row};
        small_product<RightSide::rows>(to_queries);
        // A logit's gradient times the logit, summed over all: the logit is a product of q, which dq is the sum of.
        if (a.dtemperature != nullptr) dtemperature += dot(q + first * size.row, dq, rows * size.row);
        for (int64_t i = 0; i < rows; ++i) give_row(dq + i * size.row, s.width, scale, dqkv + (first + i) * stride);

        // Over the tile's tokens, to all.
        const auto to_all = [&](const float* left, const float* right, float* sum) HWY_ATTR {
          const SmallProduct p{.rows = s.tokens,
                               .depth = rows,
                               .vectors = size.row / kLanes,
                               .a = left,
                               .a_stride = size.weights_row,
                               .b = right + first * size.row,
                               .b_stride = size.row,
                               .c = sum,
                               .c_stride = size.row};
          if (first == 0)
            small_product<RightSide::rows, /*Transposed=*/true>(p);
          else
            small_product<RightSide::rows, /*Transposed=*/true, /*Adds=*/true>(p);
        };
        to_all(grads, q, dk);
        to_all(weights, dy, dv);
      }
      for (int64_t i = 0; i < s.tokens; ++i) {
        give_row(dk + i * size.row, s.width, 1.0f, dqkv + i * stride + all);
        give_row(dv + i * size.row, s.width, 1.0f, dqkv + i * stride + 2 * all);
      }
    }
  if (a.dtemperature != nullptr) *a.dtemperature = static_cast<float>(dtemperature);
  zero_pads(a.dqkv, s.n * s.tokens, 3 * all);
}
CT_TYPED_TARGET(Backward, backward, AttentionGradArgs)

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {

size_t attention_workspace(const AttentionShape& s) {
  const HeadSizes size(s);
  return static_cast<size_t>(2 * size.matrix + size.panels + size.weights + 2 * padded(size.tile) +
                             size.tile * size.row + size.few);
}
size_t attention_grad_workspace(const AttentionShape& s) {
  const HeadSizes size(s);
  return static_cast<size_t>(5 * size.matrix + 2 * size.panels + 2 * size.weights + size.tile * size.row + size.few +
                             padded(size.tile));
}
CT_TYPED_KERNEL(attention, Forward, AttentionArgs)
CT_TYPED_KERNEL(attention_grad, Backward, AttentionGradArgs)
}  // namespace ct::cpu
#endif
