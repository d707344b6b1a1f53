// Scalar references of the linear layer, ReLU and softmax + cross entropy. Dense rows, no pads.
#pragma once

#include <algorithm>
#include <cmath>

#include "selftest/reference/scalar.h"

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

struct LinearGradients {
  std::vector<double> dx, dw, db;
};
inline LinearGradients linear_gradients(int64_t n, int64_t in, int64_t out, const std::vector<double>& x,
                                        const std::vector<double>& w, const std::vector<double>& dy) {
  LinearGradients g{std::vector<double>(x.size()), std::vector<double>(w.size()),
                    std::vector<double>(static_cast<size_t>(out))};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t o = 0; o < out; ++o) {
      const double d = dy[i * out + o];
      g.db[o] += d;
      for (int64_t j = 0; j < in; ++j) {
        g.dx[i * in + j] += d * w[o * in + j];
        g.dw[o * in + j] += d * x[i * in + j];
      }
    }
  return g;
}

template <class T>
std::vector<T> relu(std::vector<T> x) {
  for (T& v : x)
    if (real(v) <= 0) v = 0;
  return x;
}
inline std::vector<double> relu_gradient(const std::vector<double>& y, std::vector<double> dy) {
  for (size_t i = 0; i < dy.size(); ++i)
    if (!(y[i] > 0)) dy[i] = 0;
  return dy;
}

/// One image's loss: - sum_c target_c log softmax(z)_c. A target need not sum to 1.
template <class T>
T softmax_cross_entropy(const std::vector<T>& z, const std::vector<double>& target) {
  double top = real(z[0]);
  for (const T& v : z) top = std::max(top, real(v));
  T sum = 0, loss = 0;
  for (const T& v : z) sum += std::exp(v - top);
  const T log_sum = top + std::log(sum);
  for (size_t c = 0; c < z.size(); ++c) loss += target[c] * (log_sum - z[c]);
  return loss;
}

/// Its gradient by z: the softmax, times the target's sum, minus the target.
inline std::vector<double> softmax_cross_entropy_gradient(std::vector<double> z, const std::vector<double>& target) {
  const double top = *std::max_element(z.begin(), z.end());
  double sum = 0, targets = 0;
  for (double& v : z) sum += v = std::exp(v - top);
  for (const double t : target) targets += t;
  for (size_t c = 0; c < z.size(); ++c) z[c] = targets * z[c] / sum - target[c];
  return z;
}

/// The target of a label with label smoothing.
inline std::vector<double> smooth_target(size_t classes, int64_t label, double smoothing) {
  std::vector<double> target(classes, smoothing / static_cast<double>(classes));
  target[static_cast<size_t>(label)] += 1 - smoothing;
  return target;
}
template <class T>
T softmax_cross_entropy(const std::vector<T>& z, int64_t label, double smoothing) {
  return softmax_cross_entropy(z, smooth_target(z.size(), label, smoothing));
}
inline std::vector<double> softmax_cross_entropy_gradient(const std::vector<double>& z, int64_t label,
                                                          double smoothing) {
  return softmax_cross_entropy_gradient(z, smooth_target(z.size(), label, smoothing));
}

}  // namespace ct::reference
