#include "device/cpu/kernels/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "device/cpu/kernels/linear.h"

namespace ct::cpu {

void softmax_cross_entropy(const SoftmaxCrossEntropyArgs& a) {
  const int64_t stride = padded(a.classes);
  const double even = a.label_smoothing / static_cast<double>(a.classes), own = 1 - a.label_smoothing;
  const auto weight = [&](int64_t c) { return a.class_weights == nullptr ? 1.0 : a.class_weights[c]; };
  double all_weights = 0;
  if (a.class_weights != nullptr) all_weights = std::accumulate(a.class_weights, a.class_weights + a.classes, 0.0);
  for (int64_t n = 0; n < a.n; ++n) {
    const float* z = a.logits + n * stride;
    const int32_t label = a.labels[n], second = a.second_labels == nullptr ? label : a.second_labels[n];
    const double share = a.second_labels == nullptr ? 0 : a.second_shares[n];
    const double wanted = a.second_labels == nullptr ? z[label] : (1 - share) * z[label] + share * z[second];
    int32_t best = 0, label_rank = 0;
    double total = 0, weighted_total = 0;
    for (int32_t c = 0; c < a.classes; ++c) {
      if (z[c] > z[best]) best = c;
      label_rank += !(z[c] <= z[label]);  // NaN is no hit, and beats all
      total += z[c];
    }
    if (a.class_weights != nullptr)
      for (int64_t c = 0; c < a.classes; ++c) weighted_total += weight(c) * z[c];
    double sum = 0;
    float* dz = a.dlogits == nullptr ? nullptr : a.dlogits + n * stride;
    for (int64_t c = 0; c < a.classes; ++c) {
      const float e = std::exp(z[c] - z[best]);
      sum += e;
      if (dz != nullptr) dz[c] = e;
    }
    const double log_sum = z[best] + std::log(sum);
    // Also without smoothing: 0 * total keeps the promise that any infinite logit shows in the loss.
    const double first = own * (1 - share), other = own * share;
    a.losses[n] = static_cast<float>(
        a.class_weights == nullptr
            ? own * (log_sum - wanted) + a.label_smoothing * (log_sum - total / static_cast<double>(a.classes))
            : first * weight(label) * (log_sum - z[label]) + other * weight(second) * (log_sum - z[second]) +
                  even * (all_weights * log_sum - weighted_total));
    a.predicted[n] = best;
    a.label_rank[n] = label_rank;
    if (dz == nullptr) continue;
    const double targets =
        a.class_weights == nullptr ? 1 : even * all_weights + first * weight(label) + other * weight(second);
    for (int64_t c = 0; c < a.classes; ++c) {
      const double target = even + (c == label ? first : 0.0) + (c == second ? other : 0.0);
      dz[c] = a.gradient_scale * static_cast<float>(targets * (dz[c] / sum) - weight(c) * target);
    }
    std::fill(dz + a.classes, dz + stride, 0.0f);
  }
}

}  // namespace ct::cpu
