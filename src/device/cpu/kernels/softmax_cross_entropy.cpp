#include "device/cpu/kernels/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "device/cpu/kernels/linear.h"

namespace ct::cpu {

void softmax_cross_entropy(const SoftmaxCrossEntropyArgs& a) {
  const int64_t stride = padded(a.classes);
  const double even = a.label_smoothing / static_cast<double>(a.classes), own = 1 - a.label_smoothing;
  for (int64_t n = 0; n < a.n; ++n) {
    const float* z = a.logits + n * stride;
    const int32_t label = a.labels[n], second = a.second_labels == nullptr ? label : a.second_labels[n];
    const double share = a.second_labels == nullptr ? 0 : a.second_shares[n];
    const double wanted = a.second_labels == nullptr ? z[label] : (1 - share) * z[label] + share * z[second];
    int32_t best = 0, label_rank = 0;
    double total = 0;
    for (int32_t c = 0; c < a.classes; ++c) {
      if (z[c] > z[best]) best = c;
      label_rank += !(z[c] <= z[label]);  // NaN is no hit, and beats all
      total += z[c];
    }
    double sum = 0;
    float* dz = a.dlogits == nullptr ? nullptr : a.dlogits + n * stride;
    for (int64_t c = 0; c < a.classes; ++c) {
      const float e = std::exp(z[c] - z[best]);
      sum += e;
      if (dz != nullptr) dz[c] = e;
    }
    const double log_sum = z[best] + std::log(sum);
    // Also without smoothing: 0 * total keeps the promise that any infinite logit shows in the loss.
    a.losses[n] = static_cast<float>(own * (log_sum - wanted) +
                                     a.label_smoothing * (log_sum - total / static_cast<double>(a.classes)));
    a.predicted[n] = best;
    a.label_rank[n] = label_rank;
    if (dz == nullptr) continue;
    for (int64_t c = 0; c < a.classes; ++c) {
      const double target = even + (c == label ? own * (1 - share) : 0.0) + (c == second ? own * share : 0.0);
      dz[c] = a.gradient_scale * static_cast<float>(dz[c] / sum - target);
    }
    std::fill(dz + a.classes, dz + stride, 0.0f);
  }
}

}  // namespace ct::cpu
