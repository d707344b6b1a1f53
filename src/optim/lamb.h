// LAMB (You et al., arXiv 1904.00962) as DeepSpeed's FusedLamb, in two passes over memory:
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  u = m / (sqrt(v) + eps) + weight_decay w
//   trust = |w| / |u| between min_coeff and max_coeff, 1 where a norm is 0
//   w -= lr sqrt(1 - beta2^t) / (1 - beta1^t) trust u; without bias_correction w -= lr trust u
#pragma once

#include <optional>

#include "base/config_key.h"
#include "graph/ops.h"
#include "optim/parameter_groups.h"
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

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const;
  std::string_view decay() const { return ""; }
  Rates rates() const { return {lr, betas}; }
  std::array<double, kCoefficients> coefficients(const Rates& rates, int64_t applied) const;
  std::vector<std::string> states() const { return {"exp_avg", "exp_avg_sq"}; }
  /// Of tensors whose norms the two sums give; `ratios` takes the result.
  TrustRatios trust(std::vector<TrustRatios::Tensor> tensors, ValueId scalars, ValueId weight_sums, ValueId update_sums,
                    ValueId ratios) const;
  ComputeOp op(TrustedUpdate update) const { return ct::Lamb{std::move(update), eps}; }
};

}  // namespace ct::optim
