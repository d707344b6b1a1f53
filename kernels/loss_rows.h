// The loss of rows, a warp each, and its gradient: softmax_cross_entropy.h states them.
#pragma once

#include <cmath>
#include <cstdint>

#include "softmax_cross_entropy.h"

namespace ct::kernels {

constexpr int kLossWarps = 8;  // of a block, and its rows

template <class Number>
__device__ __forceinline__ Number warp_sum(Number x) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(kAllLanes, x, lanes);
  return x;
}

/// Does the condition hold for any thread of the block? All of them call it, with a barrier between two calls.
__device__ __forceinline__ bool any_of_block(bool condition) {
  int* warps = shared_memory<int>();
  const bool any = __any_sync(kAllLanes, condition);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = any;
  __syncthreads();
  bool result = false;
  for (int i = 0; i < kLossWarps; ++i) result |= warps[i] != 0;
  return result;
}

/// What a row's label is, or labels are; without a second one that is the first, of which it takes nothing.
struct Labels {
  __device__ Labels(const SoftmaxCrossEntropyArgs& a, int64_t n)
      : first(a.labels[n]),
        second(a.second_labels == nullptr ? first : a.second_labels[n]),
        share(a.second_labels == nullptr ? 0.0 : a.second_shares[n]) {}
  int first, second;
  double share;
};

__device__ __forceinline__ double weight(const SoftmaxCrossEntropyArgs& a, int c) {
  return a.class_weights == nullptr ? 1.0 : a.class_weights[c];
}

struct Row {
  float top = 0;       // the largest logit
  double sum = 1;      // of exp(z - top)
  double targets = 1;  // the sum of the weighted target
  bool finite = true;  // the loss
};

/// call(i, c) for the i-th class c of a lane, every 32nd: at most kHeld of them, or any number if kHeld is 0.
template <int kHeld, class Call>
__device__ __forceinline__ void each_class(const SoftmaxCrossEntropyArgs& a, int lane, Call call) {
  const int classes = static_cast<int>(a.classes);
  if constexpr (kHeld == 0) {
    for (int c = lane; c < classes; c += kWarp) call(0, c);
  } else {
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (const int c = lane + i * kWarp; c < classes) call(i, c);
  }
}

/// Everything of a row but its gradient; all lanes of a warp, and all get the same. `held` becomes exp(z - top) of the
/// lane's classes, unless kHeld is 0.
template <int kHeld>
__device__ __forceinline__ Row row_loss(const SoftmaxCrossEntropyArgs& a, int64_t n, int lane, float* held) {
  const float* z = a.logits + n * a.stride;
  if constexpr (kHeld > 0) each_class<kHeld>(a, lane, [&](int i, int c) { held[i] = z[c]; });
  const auto logit = [&](int i, int c) { return kHeld > 0 ? held[i] : z[c]; };
  const Labels labels(a, n);
  const float label = z[labels.first];
  const double wanted =
      a.second_labels == nullptr ? label : (1 - labels.share) * label + labels.share * z[labels.second];
  float top = -INFINITY;
  int best = INT32_MAX, label_rank = 0;
  double total = 0;
  each_class<kHeld>(a, lane, [&](int i, int c) {
    const float v = logit(i, c);
    if (v > top || (v == top && c < best)) top = v, best = c;
    label_rank += !(v <= label);  // NaN is no hit, and beats all
    total += v;
  });
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    const float v = __shfl_xor_sync(kAllLanes, top, lanes);
    const int c = __shfl_xor_sync(kAllLanes, best, lanes);
    if (v > top || (v == top && c < best)) top = v, best = c;
  }
  if (isnan(z[0])) top = z[0], best = 0;
  label_rank = warp_sum(label_rank);
  total = warp_sum(total);
  double sum = 0;
  each_class<kHeld>(a, lane, [&](int i, int c) {
    const float part = expf(logit(i, c) - top);
    if constexpr (kHeld > 0) held[i] = part;
    sum += part;
  });
  sum = warp_sum(sum);
  const double log_sum = top + log(sum);
  // Also without smoothing: 0 * total keeps the promise that any infinite logit shows in the loss.
  const double own = 1 - a.label_smoothing;
  double loss_sum = own * (log_sum - wanted) + a.label_smoothing * (log_sum - total / static_cast<double>(a.classes));
  double targets = 1;
  if (a.class_weights != nullptr) {
    double weights = 0, weighted_total = 0;
    for (int c = lane; c < a.classes; c += kWarp) {
      weights += weight(a, c);
      weighted_total += weight(a, c) * z[c];
    }
    const double even = a.label_smoothing / static_cast<double>(a.classes), all = warp_sum(weights);
    const double first = own * (1 - labels.share) * weight(a, labels.first),
                 second = own * labels.share * weight(a, labels.second);
    loss_sum = first * (log_sum - label) + second * (log_sum - z[labels.second]) +
               even * (all * log_sum - warp_sum(weighted_total));
    targets = even * all + first + second;
  }
  const auto loss = static_cast<float>(loss_sum);
  if (lane == 0) {
    a.losses[n] = loss;
    a.predicted[n] = best;
    a.label_rank[n] = label_rank;
  }
  return {top, sum, targets, static_cast<bool>(isfinite(loss))};
}

/// The gradient of a row; all lanes of a warp, with what row_loss has left. broken: it is NaN.
template <int kHeld>
__device__ __forceinline__ void row_gradient(const SoftmaxCrossEntropyArgs& a, int64_t n, int lane, const Row& row,
                                             const float* held, bool broken) {
  const float* z = a.logits + n * a.stride;
  float* dz = a.dlogits + n * a.stride;
  const Labels labels(a, n);
  const double own = 1 - a.label_smoothing, first = own * (1 - labels.share), second = own * labels.share;
  const double per_sum = 1 / row.sum, even = a.label_smoothing / static_cast<double>(a.classes);
  const auto scale =
      static_cast<float>((a.loss_scale == nullptr ? 1.0 : *a.loss_scale) / (static_cast<double>(a.n) * a.predivide));
  each_class<kHeld>(a, lane, [&](int i, int c) {
    const float part = kHeld > 0 ? held[i] : expf(z[c] - row.top);
    const double target = even + (c == labels.first ? first : 0.0) + (c == labels.second ? second : 0.0);
    dz[c] = broken ? NAN : scale * static_cast<float>(row.targets * (part * per_sum) - weight(a, c) * target);
  });
  for (int64_t c = a.classes + lane; c < a.stride; c += kWarp) dz[c] = 0;
}

/// Everything of rows first .. first + kLossWarps - 1. A loss that is not finite makes the gradient of all of them NaN.
/// The logits of at most 32 * kHeld classes stay in registers: memory is read once, all of a row at once, and
/// exponentials are not computed again for the gradient. All threads of a block of kLossWarps warps call it. Shared
/// memory: kLossWarps ints.
template <int kHeld>
__device__ __forceinline__ void loss_of_rows(const SoftmaxCrossEntropyArgs& a, int64_t first) {
  const int lane = threadIdx.x % kWarp;
  const int64_t n = first + threadIdx.x / kWarp;
  float held[kHeld > 0 ? kHeld : 1];
  Row row;
  if (n < a.n) row = row_loss<kHeld>(a, n, lane, held);
  if (a.dlogits == nullptr) return;
  const bool broken = any_of_block(!row.finite);
  if (n < a.n) row_gradient<kHeld>(a, n, lane, row, held, broken);
}

}  // namespace ct::kernels
