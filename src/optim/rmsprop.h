// PyTorch's RMSprop (Tieleman & Hinton, 2012), plain or centered (Graves, arXiv 1308.0850).
#pragma once

#include <optional>

#include "base/config_key.h"
#include "graph/ops.h"
#include "optim/parameter_groups.h"
#include "optim/rates.h"

namespace ct::optim {

struct RmsProp {
  static constexpr std::string_view kType = "RMSprop";
  static constexpr BetasAre kBetas = BetasAre::momentum;
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, momentum = 0;
  bool centered = false;
  double weight_decay = 0;
  NoDecay no_decay = NoDecay::none;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const { return {}; }
  std::string_view decay() const { return ""; }
  Rates rates() const { return {lr, {momentum, 0}}; }
  std::array<double, kCoefficients> coefficients(const Rates& rates, int64_t) const { return {rates.betas[0]}; }
  std::vector<std::string> states() const {
    return {"square_avg", momentum != 0 ? "momentum_buffer" : "", centered ? "grad_avg" : ""};
  }
  ComputeOp op(Update update) const { return ct::RmsProp{std::move(update), alpha, eps}; }
};

}  // namespace ct::optim
