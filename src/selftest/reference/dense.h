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

/// The gradient of softmax_cross_entropy: the softmax minus the smoothed target.
inline std::vector<double> softmax_cross_entropy_gradient(std::vector<double> z, int64_t label, double smoothing) {
  const double top = *std::max_element(z.begin(), z.end()), classes = static_cast<double>(z.size());
  double sum = 0;
  for (double& v : z) sum += v = std::exp(v - top);
  for (double& v : z) v = v / sum - smoothing / classes;
  z[static_cast<size_t>(label)] -= 1 - smoothing;
  return z;
}

}  // namespace ct::reference
