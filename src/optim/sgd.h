// PyTorch's SGD, dampening 0.
#pragma once

#include <optional>

#include "base/config_key.h"
#include "graph/ops.h"
#include "optim/parameter_groups.h"
#include "optim/rates.h"

namespace ct::optim {

struct Sgd {
  static constexpr std::string_view kType = "SGD";
  static constexpr BetasAre kBetas = BetasAre::momentum;
  double lr = 1e-3, momentum = 0, dampening = 0;
  bool nesterov = false;
  double weight_decay = 0;
  NoDecay no_decay = NoDecay::none;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const;
  std::string_view decay() const { return ""; }
  Rates rates() const { return {lr, {momentum, 0}}; }
  std::array<double, kCoefficients> coefficients(const Rates& rates, int64_t) const { return {rates.betas[0]}; }
  std::vector<std::string> states() const { return {momentum != 0 ? "momentum_buffer" : ""}; }
  ComputeOp op(Update update) const { return ct::Sgd{std::move(update), nesterov}; }
};

}  // namespace ct::optim
