// Scalar reference of GELU, from the normal distribution.
#pragma once

#include <cmath>
#include <numbers>

#include "selftest/reference/scalar.h"

namespace ct::reference {

/// 1 / sqrt(2 pi) e^(-x^2/2)
inline double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }

/// The standard normal distribution function.
inline double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
/// For complex x: 1/2 + the density's integral from 0, computed with the series e^(-x^2/2) / sqrt(2 pi) (x + x^3/3 +
/// x^5/(3 5) + ...), whose terms have one sign. For |x| > 12 the error is less than 2e-33.
inline std::complex<double> normal_cdf(std::complex<double> x) {
  if (std::abs(x.real()) > 12) return x.real() > 0 ? 1 : 0;
  const std::complex<double> square = x * x;
  std::complex<double> term = x, sum = x;
  for (int n = 3; n < 1000 && std::abs(term) > 1e-18 * std::abs(sum); n += 2)
    sum += term *= square / static_cast<double>(n);
  return 0.5 + std::exp(-square / 2.0) / std::sqrt(2 * std::numbers::pi) * sum;
}

template <class T>
std::vector<T> gelu(std::vector<T> x) {
  for (T& v : x) v *= normal_cdf(v);
  return x;
}
inline std::vector<double> gelu_gradient(const std::vector<double>& x, std::vector<double> dy) {
  for (size_t i = 0; i < dy.size(); ++i) dy[i] *= normal_cdf(x[i]) + x[i] * normal_density(x[i]);
  return dy;
}

}  // namespace ct::reference
