// PyTorch's Adagrad (Duchi et al., 2011):
//   g += weight_decay p;  sum += g^2;  p -= lr / (1 + lr_decay t) g / (sqrt(sum) + eps), t: previous applied steps
#pragma once

#include "graph/optimizer_rules.h"
#include "optim/keys.h"
#include "optim/rates.h"

namespace ct::optim {

struct Adagrad {
  static constexpr std::string_view kType = "Adagrad";
  static constexpr BetasAre kBetas = BetasAre::nothing;
  double lr = 1e-2, lr_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  double weight_decay = 0;
  NoDecay no_decay = NoDecay::none;

  std::vector<ConfigKey> keys() {
    return {lr_key(lr),
            {"lr_decay", &lr_decay, "the rate is divided by 1 + this * steps", kNotNegative},
            {"initial_accumulator_value", &initial_accumulator_value, "", {.only = "0"}},
            {"eps", &eps, "added to the square root of the sum", kPositive},
            weight_decay_key(weight_decay),
            no_decay_key(no_decay)};
  }
  Rates rates() const { return {lr, {}}; }
  rules::Adagrad::Coefficients coefficients(const Rates&, int64_t applied) const {
    return {.rate_factor = 1 / (1 + lr_decay * static_cast<double>(applied))};
  }
  rules::Adagrad rule() const { return {.eps = eps}; }
};

}  // namespace ct::optim
