// PyTorch's RMSprop (Tieleman & Hinton, 2012), plain or centered (Graves, arXiv 1308.0850).
#pragma once

#include "graph/optimizer_rules.h"
#include "optim/keys.h"
#include "optim/rates.h"

namespace ct::optim {

struct RmsProp {
  static constexpr std::string_view kType = "RMSprop";
  static constexpr BetasAre kBetas = BetasAre::momentum;
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, momentum = 0;
  bool centered = false;
  double weight_decay = 0;
  NoDecay no_decay = NoDecay::none;

  std::vector<ConfigKey> keys() {
    return {lr_key(lr),
            {"alpha", &alpha, "decay of the mean square", kFraction},
            {"eps", &eps, "added to the square root of the mean square", kNotNegative},
            {"momentum", &momentum, "0: none", kNotNegative},
            {"centered", &centered, "divide by the standard deviation instead of the root mean square", {}},
            weight_decay_key(weight_decay),
            no_decay_key(no_decay)};
  }
  Rates rates() const { return {lr, {momentum, 0}}; }
  rules::RmsProp::Coefficients coefficients(const Rates& rates, int64_t) const { return {.momentum = rates.betas[0]}; }
  rules::RmsProp rule() const {
    using Rule = rules::RmsProp;
    const int form = (momentum != 0 ? Rule::momentum : Rule::plain) + (centered ? Rule::centered : Rule::plain);
    return {.form = form, .alpha = alpha, .eps = eps};
  }
};

}  // namespace ct::optim
