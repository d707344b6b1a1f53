#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "optim/rates.h"

namespace ct::optim {

/// PyTorch's PolynomialLR, in applied steps: lr = lr of the optimizer * (1 - step / total_iters) ^ power, then 0.
struct PolynomialLr {
  static constexpr std::string_view kType = "PolynomialLR", kOverridesLr = "";
  int64_t total_iters = 5;
  double power = 1;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const { return {}; }
  Rates at(Rates given, int64_t step) const;
};

}  // namespace ct::optim
