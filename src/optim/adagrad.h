// PyTorch's Adagrad (Duchi et al., 2011):
//   g += weight_decay p;  sum += g^2;  p -= lr / (1 + lr_decay t) g / (sqrt(sum) + eps), t applied steps before this
//   one
#pragma once

#include <optional>

#include "base/config_key.h"
#include "graph/ops.h"
#include "optim/parameter_groups.h"
#include "optim/rates.h"

namespace ct::optim {

struct Adagrad {
  static constexpr std::string_view kType = "Adagrad";
  static constexpr BetasAre kBetas = BetasAre::nothing;
  double lr = 1e-2, lr_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  double weight_decay = 0;
  NoDecay no_decay = NoDecay::none;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const { return {}; }
  std::string_view decay() const { return ""; }
  Rates rates() const { return {lr, {}}; }
  std::array<double, kCoefficients> coefficients(const Rates&, int64_t applied) const {
    return {1 / (1 + lr_decay * static_cast<double>(applied))};
  }
  std::vector<std::string> states() const { return {"sum"}; }
  ComputeOp op(Update update) const { return ct::Adagrad{std::move(update), eps}; }
};

}  // namespace ct::optim
