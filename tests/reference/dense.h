// Scalar references of the linear layer and of softmax + cross entropy. Dense rows, no pads.
#pragma once

#include <algorithm>
#include <cmath>

#include "reference/scalar.h"

namespace ct::reference {

template <class T>
std::vector<T> linear(int64_t n, int64_t in, int64_t out, const std::vector<T>& x, const std::vector<T>& w,
                      const std::vector<T>& b) {
  std::vector<T> y;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t o = 0; o < out; ++o) {
      T sum = b[o];
      for (int64_t j = 0; j < in; ++j) sum += x[i * in + j] * w[o * in + j];
      y.push_back(sum);
    }
  return y;
}

/// One image's loss.
template <class T>
T softmax_cross_entropy(const std::vector<T>& z, int64_t label, double smoothing) {
  double top = real(z[0]);
  for (const T& v : z) top = std::max(top, real(v));
  T sum = 0, mean = 0;
  for (const T& v : z) {
    sum += std::exp(v - top);
    mean += v / static_cast<double>(z.size());
  }
  const T log_sum = top + std::log(sum);
  return (1 - smoothing) * (log_sum - z[label]) + smoothing * (log_sum - mean);
}

}  // namespace ct::reference
