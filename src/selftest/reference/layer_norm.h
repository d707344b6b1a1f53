// Scalar reference of layer normalisation. Dense rows, no pads.
#pragma once

#include <cmath>

#include "selftest/reference/scalar.h"

namespace ct::reference {

/// [rows][columns].
struct LayerNorm {
  int64_t rows, columns;
  double eps = 1e-5;
};

/// Each row's mean and biased variance.
template <class T>
std::vector<T> row_means(const LayerNorm& s, const std::vector<T>& x) {
  std::vector<T> mean(static_cast<size_t>(s.rows));
  for (int64_t i = 0; i < s.rows * s.columns; ++i) mean[i / s.columns] += x[i] / static_cast<double>(s.columns);
  return mean;
}
template <class T>
std::vector<T> row_variances(const LayerNorm& s, const std::vector<T>& x) {
  const std::vector<T> mean = row_means(s, x);
  std::vector<T> squares(x.size());
  for (int64_t i = 0; i < s.rows * s.columns; ++i)
    squares[i] = (x[i] - mean[i / s.columns]) * (x[i] - mean[i / s.columns]);
  return row_means(s, squares);
}

/// (x - mean) / sqrt(var + eps): rows with mean 0 and a variance of nearly 1.
template <class T>
std::vector<T> normalised(const LayerNorm& s, std::vector<T> x) {
  const std::vector<T> mean = row_means(s, x), var = row_variances(s, x);
  for (int64_t i = 0; i < s.rows * s.columns; ++i)
    x[i] = (x[i] - mean[i / s.columns]) / std::sqrt(var[i / s.columns] + s.eps);
  return x;
}

template <class T>
std::vector<T> layer_norm(const LayerNorm& s, const std::vector<T>& x, const std::vector<T>& w,
                          const std::vector<T>& b) {
  std::vector<T> y = normalised(s, x);
  for (int64_t i = 0; i < s.rows * s.columns; ++i) y[i] = y[i] * w[i % s.columns] + b[i % s.columns];
  return y;
}

struct LayerNormGradients {
  std::vector<double> dx, dw, db;
};
/// Gradients of sum(dy * layer_norm).
inline LayerNormGradients layer_norm_gradients(const LayerNorm& s, const std::vector<double>& x,
                                               const std::vector<double>& w, const std::vector<double>& dy) {
  const std::vector<double> n = normalised(s, x), var = row_variances(s, x);
  const auto columns = static_cast<size_t>(s.columns);
  LayerNormGradients r{std::vector<double>(x.size()), std::vector<double>(columns), std::vector<double>(columns)};
  std::vector<double> g(x.size()), gn(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    r.dw[i % columns] += dy[i] * n[i];
    r.db[i % columns] += dy[i];
    g[i] = dy[i] * w[i % columns];
    gn[i] = g[i] * n[i];
  }
  const std::vector<double> g_mean = row_means(s, g), gn_mean = row_means(s, gn);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t row = i / columns;
    r.dx[i] = (g[i] - g_mean[row] - n[i] * gn_mean[row]) / std::sqrt(var[row] + s.eps);
  }
  return r;
}

}  // namespace ct::reference
