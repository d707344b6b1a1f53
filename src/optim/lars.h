// LARS (You et al., arXiv 1708.03888) as timm's Lars: SGD that scales each tensor's step by a trust ratio:
//   trust = trust_coeff |w| / (|g| + weight_decay |w| + eps), 1 if a norm is 0; with trust_clip min(trust / lr, 1)
//   g = trust (g + weight_decay w);  b = momentum b + g;  w -= lr (nesterov ? g + momentum b : b)
// A tensor without decay has trust 1, unless always_adapt. |w| costs another pass over the weights.
#pragma once

#include <limits>
#include <optional>
#include <utility>

#include "graph/ops.h"
#include "optim/keys.h"
#include "optim/rates.h"
#include "optim/sgd.h"

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

  std::vector<ConfigKey> keys() {
    return {lr_key(lr),
            {"momentum", &momentum, "0: none", kNotNegative},
            {"dampening", &dampening, "", {.only = "0"}},
            {"nesterov", &nesterov, "", {}},
            {"trust_coeff", &trust_coeff, "factor of the trust ratio", kNotNegative},
            {"eps", &eps, "added to the gradient's norm", kNotNegative},
            {"trust_clip", &trust_clip, "clips trust ratio / rate to 1", {}},
            {"always_adapt", &always_adapt, "trust ratios of tensors without decay too", {}},
            weight_decay_key(weight_decay),
            no_decay_key(no_decay)};
  }
  std::optional<ConfigFault> fault() const { return sgd_fault(momentum, nesterov); }
  Rates rates() const { return {lr, {momentum, 0}}; }
  rules::Lars::Coefficients coefficients(const Rates& rates, int64_t) const { return {.momentum = rates.betas[0]}; }
  /// The trust ratios of tensors, from their sums of squares: of weights and of gradients. `ratios` receives the
  /// result.
  TrustRatios trust(std::vector<TrustRatios::Tensor> tensors, ValueId scalars, ValueId weight_sums,
                    ValueId gradient_sums, ValueId ratios) const {
    for (TrustRatios::Tensor& t : tensors) t.adapts = always_adapt || t.weight_decay != 0;
    return {.tensors = std::move(tensors),
            .scalars = scalars,
            .weight_sums = weight_sums,
            .update_sums = gradient_sums,
            .ratios = ratios,
            .coefficient = trust_coeff,
            .eps = eps,
            .least = 0,
            .most = trust_clip ? 1 : std::numeric_limits<double>::infinity(),
            .of_gradients = true,
            .by_rate = trust_clip};
  }
  rules::Lars rule() const { return {{.form = sgd_form(momentum, nesterov)}}; }
};

}  // namespace ct::optim
