// PyTorch's SGD, dampening 0.
#pragma once

#include <optional>

#include "graph/optimizer_rules.h"
#include "optim/keys.h"
#include "optim/rates.h"

namespace ct::optim {

/// The form of rules::Sgd and rules::Lars.
inline int sgd_form(double momentum, bool nesterov) {
  if (momentum == 0) return rules::Sgd::plain;
  return nesterov ? rules::Sgd::nesterov : rules::Sgd::momentum;
}
inline std::optional<ConfigFault> sgd_fault(double momentum, bool nesterov) {
  if (nesterov && momentum <= 0) return ConfigFault{"nesterov", "needs a momentum above 0"};
  return {};
}

struct Sgd {
  static constexpr std::string_view kType = "SGD";
  static constexpr BetasAre kBetas = BetasAre::momentum;
  double lr = 1e-3, momentum = 0, dampening = 0;
  bool nesterov = false;
  double weight_decay = 0;
  NoDecay no_decay = NoDecay::none;

  std::vector<ConfigKey> keys() {
    return {lr_key(lr),
            {"momentum", &momentum, "0: none", kNotNegative},
            {"dampening", &dampening, "", {.only = "0"}},
            {"nesterov", &nesterov, "", {}},
            weight_decay_key(weight_decay),
            no_decay_key(no_decay)};
  }
  std::optional<ConfigFault> fault() const { return sgd_fault(momentum, nesterov); }
  Rates rates() const { return {lr, {momentum, 0}}; }
  rules::Sgd::Coefficients coefficients(const Rates& rates, int64_t) const { return {.momentum = rates.betas[0]}; }
  rules::Sgd rule() const { return {.form = sgd_form(momentum, nesterov)}; }
};

}  // namespace ct::optim
