#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "optim/rates.h"

namespace ct::optim {

/// PyTorch's ExponentialLR, in applied steps: lr = lr of the optimizer * gamma ^ step.
struct ExponentialLr {
  static constexpr std::string_view kType = "ExponentialLR", kOverridesLr = "";
  std::optional<double> gamma;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const;
  Rates at(Rates given, int64_t step) const;
};

}  // namespace ct::optim
