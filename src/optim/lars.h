// LARS (You et al., arXiv 1708.03888) as timm's Lars: SGD whose step is, tensor by tensor, as long as the tensor's
// weights allow:
//   trust = trust_coeff |w| / (|g| + weight_decay |w| + eps), 1 where a norm is 0; with trust_clip min(trust / lr, 1)
//   g = trust (g + weight_decay w);  b = momentum b + g;  w -= lr (nesterov ? g + momentum b : b)
// A tensor without decay is left as it is (trust 1), unless always_adapt. Another pass over the weights gives |w|.
#pragma once

#include <optional>

#include "base/config_key.h"
#include "graph/ops.h"
#include "optim/parameter_groups.h"
#include "optim/rates.h"

namespace ct::optim {

struct Lars {
  static constexpr std::string_view kType = "LARS";
  static constexpr BetasAre kBetas = BetasAre::momentum;
  double lr = 1, momentum = 0, dampening = 0;
  bool nesterov = false;
  double trust_coeff = 1e-3, eps = 1e-8;
  bool trust_clip = false, always_adapt = false;
  double weight_decay = 0;
  NoDecay no_decay = NoDecay::none;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const;
  std::string_view decay() const { return ""; }
  Rates rates() const { return {lr, {momentum, 0}}; }
  std::array<double, kCoefficients> coefficients(const Rates& rates, int64_t) const { return {rates.betas[0]}; }
  std::vector<std::string> states() const { return {momentum != 0 ? "momentum_buffer" : ""}; }
  /// Of tensors whose norms the two sums give; `ratios` takes the result.
  TrustRatios trust(std::vector<TrustRatios::Tensor> tensors, ValueId scalars, ValueId weight_sums,
                    ValueId gradient_sums, ValueId ratios) const;
  ComputeOp op(TrustedUpdate update) const { return ct::Lars{std::move(update), nesterov}; }
};

}  // namespace ct::optim
