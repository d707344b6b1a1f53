// Lion (Chen et al., arXiv 2302.06675), with decoupled decay. Its first momentum only chooses the sign:
//   c = beta1 m + (1 - beta1) g;  p -= lr (sign(c) + weight_decay p);  m = beta2 m + (1 - beta2) g
// sign(0) is 0; DeepSpeed's kernel takes it for -1, by which weights that no gradient reaches would drift.
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
            {"betas", &betas, "decay of the momentum that is looked at, and of the one that is kept", kFraction},
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
