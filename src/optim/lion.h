// Lion (Chen et al., arXiv 2302.06675), with decoupled decay. The update is the sign of an interpolated momentum:
//   c = beta1 m + (1 - beta1) g;  p -= lr (sign(c) + weight_decay p);  m = beta2 m + (1 - beta2) g
// sign(0) is 0. In DeepSpeed's kernel it is -1, which moves weights without a gradient.
#pragma once

#include "graph/optimizer_rules.h"
#include "optim/keys.h"
#include "optim/rates.h"

namespace ct::optim {

struct Lion {
  static constexpr std::string_view kType = "Lion";
  static constexpr BetasAre kBetas = BetasAre::pair;
  double lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;
  NoDecay no_decay = NoDecay::none;

  std::vector<ConfigKey> keys() {
    return {lr_key(lr),
            {"betas", &betas, "decay of the momentum in the update, and of the stored one", kFraction},
            weight_decay_key(weight_decay),
            no_decay_key(no_decay)};
  }
  std::string_view decay() const { return "decoupled"; }
  Rates rates() const { return {lr, betas}; }
  rules::Lion::Coefficients coefficients(const Rates& rates, int64_t) const {
    return {.beta1 = rates.betas[0], .beta2 = rates.betas[1]};
  }
  rules::Lion rule() const { return {}; }
};

}  // namespace ct::optim
