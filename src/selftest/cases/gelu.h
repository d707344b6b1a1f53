// What rounding may do to GELU: that of its kernels (device/cpu/kernels/gelu.h), of which erfcf() on a GPU is no worse.
#pragma once

#include <cmath>

#include "selftest/reference/gelu.h"

namespace ct::cases {

inline constexpr double kUlp = 0x1p-24;  // half a unit in the last place of 1

/// Of the part of the normal distribution below x.
inline double normal_tolerance(double x) {
  return kUlp * (8 * (1 + x * x / 2) * reference::normal_below(-std::abs(x)) + 2 * reference::normal_below(x)) + 1e-16;
}
inline double gelu_tolerance(double x) {
  return std::abs(x) * (normal_tolerance(x) + 2 * kUlp * reference::normal_below(x)) + 1e-37;
}
/// Of the gradient of x for dy = 1.
inline double gelu_gradient_tolerance(double x) {
  const double slope = std::abs(x) * reference::normal_density(x);
  return normal_tolerance(x) + kUlp * ((8 + 2 * x * x) * slope + 4 * reference::normal_below(x));
}

}  // namespace ct::cases
