// The activations of layers. Kernels include this too.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ct {

/// none: z; relu: max(0, z); gelu: z Phi(z) by the normal distribution function (Hendrycks & Gimpel, 2016).
enum class Activation : uint8_t { none, relu, gelu };

/// The names of the operation and of its gradient.
struct ActivationNames {
  std::string_view forward, gradient;
};
constexpr ActivationNames names_of(Activation activation) {
  switch (activation) {
    case Activation::none:
      return {"none", "none_grad"};
    case Activation::relu:
      return {"relu", "relu_grad"};
    case Activation::gelu:
      return {"gelu", "gelu_grad"};
  }
  return {};
}

/// ReLU is fused with the computation of the sums, whatever their type, and its gradient reads the result. Every other
/// activation is a separate pass over the sums, in the graph's compute type, and its gradient reads these sums.
constexpr bool is_fused(Activation activation) {
  switch (activation) {
    case Activation::none:
    case Activation::relu:
      return true;
    case Activation::gelu:
      return false;
  }
  return false;
}

/// All activations except none.
inline constexpr auto kActivations = [] {
  constexpr int kCount = [] {
    int n = 0;
    while (!names_of(static_cast<Activation>(n + 1)).forward.empty()) ++n;
    return n;
  }();
  std::array<Activation, kCount> all = {};
  for (int i = 0; i < kCount; ++i) all[static_cast<size_t>(i)] = static_cast<Activation>(i + 1);
  return all;
}();

}  // namespace ct
