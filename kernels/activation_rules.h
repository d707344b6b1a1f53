// Of each activation its value, and dy times its derivative at x, for elements of type T; the results are not rounded.
#pragma once

#include "gelu.h"
#include "graph/activation.h"

namespace ct::kernels {

struct ReluRule {
  template <class T>
  static __device__ float value(float x) {
    return x <= 0 ? 0 : x;
  }
  template <class T>
  static __device__ float gradient(float x, float dy) {
    return x <= 0 ? 0 : dy;
  }
};
struct GeluRule {
  template <class T>
  static __device__ float value(float x) {
    return gelu_of<T>(x);
  }
  template <class T>
  static __device__ float gradient(float x, float dy) {
    return dy * gelu_derivative<T>(x);
  }
};

/// with(rule); cudaErrorInvalidValue: Activation::none.
template <class With>
cudaError_t by_rule(Activation activation, With with) {
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      return with(ReluRule());
    case Activation::gelu:
      return with(GeluRule());
  }
  return cudaErrorInvalidValue;
}

}  // namespace ct::kernels
