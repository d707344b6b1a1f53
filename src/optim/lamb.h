// LAMB (You et al., arXiv 1904.00962) as DeepSpeed's FusedLamb, in two passes over memory:
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  u = m / (sqrt(v) + eps) + weight_decay w
//   trust = |w| / |u|, clamped to min_coeff..max_coeff; 1 if a norm is 0
//   w -= lr sqrt(1 - beta2^t) / (1 - beta1^t) trust u; without bias_correction w -= lr trust u
#pragma once

#include <cmath>
#include <optional>
#include <utility>

#include "graph/ops.h"
#include "optim/keys.h"
#include "optim/rates.h"

namespace ct::optim {

struct Lamb {
  static constexpr std::string_view kType = "Lamb";
  static constexpr BetasAre kBetas = BetasAre::pair;
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, max_coeff = 10, min_coeff = 0.01;
  bool bias_correction = true;
  double weight_decay = 0;
  NoDecay no_decay = NoDecay::none;

  std::vector<ConfigKey> keys() {
    return {lr_key(lr),
            {"betas", &betas, "decay of the moments", kFraction},
            {"eps", &eps, "added to the square root of the second moment", kPositive},
            {"max_coeff", &max_coeff, "the largest trust ratio", kNotNegative},
            {"min_coeff", &min_coeff, "the smallest trust ratio", kNotNegative},
            {"bias_correction", &bias_correction, "corrects the bias of moments that start at 0", {}},
            weight_decay_key(weight_decay),
            no_decay_key(no_decay)};
  }
  std::optional<ConfigFault> fault() const {
    if (min_coeff > max_coeff) return ConfigFault{"min_coeff", "must be at most max_coeff"};
    return {};
  }
  Rates rates() const { return {lr, betas}; }
  rules::Lamb::Coefficients coefficients(const Rates& rates, int64_t applied) const {
    const auto [beta1, beta2] = rates.betas;
    const double t = static_cast<double>(applied + 1);
    return {.beta1 = beta1,
            .beta2 = beta2,
            .rate_factor = bias_correction ? std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t)) : 1};
  }
  /// The trust ratios of tensors, from their sums of squares: of weights and of updates. `ratios` receives the result.
  TrustRatios trust(std::vector<TrustRatios::Tensor> tensors, ValueId scalars, ValueId weight_sums, ValueId update_sums,
                    ValueId ratios) const {
    for (TrustRatios::Tensor& t : tensors) t.weight_decay = 0;  // the update contains the decay
    return {.tensors = std::move(tensors),
            .scalars = scalars,
            .weight_sums = weight_sums,
            .update_sums = update_sums,
            .ratios = ratios,
            .coefficient = 1,
            .eps = 0,
            .least = min_coeff,
            .most = max_coeff,
            .of_gradients = false,
            .by_rate = false};
  }
  rules::Lamb rule() const { return {.eps = eps}; }
};

}  // namespace ct::optim
