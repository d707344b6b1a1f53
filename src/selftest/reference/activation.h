// Scalar references of activations, and bounds of a device's error.
#pragma once

#include "graph/activation.h"
#include "selftest/reference/dense.h"
#include "selftest/reference/gelu.h"

namespace ct::reference {

template <class T>
std::vector<T> activation(Activation kind, const std::vector<T>& x) {
  switch (kind) {
    case Activation::none:
      return x;
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu(x);
  }
  return {};
}
/// dy times the derivative at x.
inline std::vector<double> activation_gradient(Activation kind, const std::vector<double>& x,
                                               const std::vector<double>& dy) {
  switch (kind) {
    case Activation::none:
      return dy;
    case Activation::relu:
      return relu_gradient(x, dy);
    case Activation::gelu:
      return gelu_gradient(x, dy);
  }
  return {};
}

/// Bounds of the error of f32 arithmetic, of the value at x and of the derivative, and the steepest slope, which
/// amplifies errors of x. GELU's bounds are those of device/cpu/kernels/gelu-inl.h; kernels/gelu.h satisfies them
/// too.
struct ActivationErrors {
  double value, derivative, slope;
};
inline ActivationErrors activation_errors(Activation kind, double x) {
  switch (kind) {
    case Activation::none:
    case Activation::relu:
      return {0, 0, 1};
    case Activation::gelu:
      return {std::abs(x) * (4e-7 + 0x1p-23 * normal_cdf(x)), 5e-7 + 0x1p-22, 1.13};
  }
  return {};
}

}  // namespace ct::reference
