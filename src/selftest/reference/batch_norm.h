// Scalar references of batch normalisation and global average pooling.
#pragma once

#include <cmath>

#include "selftest/reference/scalar.h"

namespace ct::reference {

/// [rows][channels].
struct Norm {
  int64_t rows, channels;
  double eps = 1e-5;
};

/// Per channel the mean and the biased variance over rows.
template <class T>
std::vector<T> channel_means(const Norm& s, const std::vector<T>& x) {
  std::vector<T> mean(static_cast<size_t>(s.channels));
  for (int64_t i = 0; i < s.rows * s.channels; ++i) mean[i % s.channels] += x[i] / static_cast<double>(s.rows);
  return mean;
}
template <class T>
std::vector<T> channel_variances(const Norm& s, const std::vector<T>& x) {
  const std::vector<T> mean = channel_means(s, x);
  std::vector<T> squares(x.size());
  for (int64_t i = 0; i < s.rows * s.channels; ++i)
    squares[i] = (x[i] - mean[i % s.channels]) * (x[i] - mean[i % s.channels]);
  return channel_means(s, squares);
}

/// (x - mean) / sqrt(var + eps) * w + b + residual (empty: none), then ReLU if `relu`.
template <class T>
std::vector<T> batch_norm(const Norm& s, const std::vector<T>& x, const std::vector<T>& mean, const std::vector<T>& var,
                          const std::vector<T>& w, const std::vector<T>& b, const std::vector<T>& residual, bool relu) {
  std::vector<T> y(x.size());
  for (int64_t i = 0; i < s.rows * s.channels; ++i) {
    const int64_t c = i % s.channels;
    y[i] = (x[i] - mean[c]) / std::sqrt(var[c] + s.eps) * w[c] + b[c] + (residual.empty() ? T(0) : residual[i]);
    if (relu && real(y[i]) <= 0) y[i] = 0;
  }
  return y;
}

struct NormGradients {
  std::vector<double> dx, g, dw, db;  // g: dy where ReLU passes it, else 0: the residual's gradient
};
/// Gradients of sum(dy * batch_norm) with the statistics of x itself; y empty: no ReLU.
inline NormGradients batch_norm_gradients(const Norm& s, const std::vector<double>& x, const std::vector<double>& y,
                                          const std::vector<double>& dy, const std::vector<double>& w) {
  const std::vector<double> mean = channel_means(s, x), var = channel_variances(s, x);
  const auto channels = static_cast<size_t>(s.channels);
  NormGradients r{std::vector<double>(x.size()), dy, std::vector<double>(channels), std::vector<double>(channels)};
  const auto normalised = [&](size_t i) { return (x[i] - mean[i % channels]) / std::sqrt(var[i % channels] + s.eps); };
  for (size_t i = 0; i < x.size(); ++i) {
    if (!y.empty() && !(y[i] > 0)) r.g[i] = 0;
    r.db[i % channels] += r.g[i];
    r.dw[i % channels] += r.g[i] * normalised(i);
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i % channels;
    const double mean_part = (r.db[c] + normalised(i) * r.dw[c]) / static_cast<double>(s.rows);
    r.dx[i] = w[c] / std::sqrt(var[c] + s.eps) * (r.g[i] - mean_part);
  }
  return r;
}

/// The same with constant statistics: no dw and no db.
inline NormGradients batch_norm_gradients_by_given(const Norm& s, const std::vector<double>& var,
                                                   const std::vector<double>& y, const std::vector<double>& dy,
                                                   const std::vector<double>& w) {
  NormGradients r{std::vector<double>(dy.size()), dy, {}, {}};
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t c = i % w.size();
    if (!y.empty() && !(y[i] > 0)) r.g[i] = 0;
    r.dx[i] = w[c] / std::sqrt(var[c] + s.eps) * r.g[i];
  }
  return r;
}

/// [n][pixels][channels] -> [n][channels]
template <class T>
std::vector<T> average_pool(int64_t n, int64_t pixels, int64_t channels, const std::vector<T>& x) {
  std::vector<T> y(static_cast<size_t>(n * channels));
  for (int64_t i = 0; i < n * pixels * channels; ++i)
    y[i / (pixels * channels) * channels + i % channels] += x[i] / static_cast<double>(pixels);
  return y;
}
inline std::vector<double> average_pool_gradient(int64_t n, int64_t pixels, int64_t channels,
                                                 const std::vector<double>& dy) {
  std::vector<double> dx(static_cast<size_t>(n * pixels * channels));
  for (int64_t i = 0; i < n * pixels * channels; ++i)
    dx[i] = dy[i / (pixels * channels) * channels + i % channels] / static_cast<double>(pixels);
  return dx;
}

}  // namespace ct::reference
