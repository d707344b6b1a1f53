#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "optim/rates.h"

namespace ct::optim {

/// PyTorch's ConstantLR, in applied steps: the optimizer's rate times `factor` for the first total_iters steps.
struct ConstantLr {
  static constexpr std::string_view kType = "ConstantLR", kOverridesLr = "";
  double factor = 1.0 / 3;
  int64_t total_iters = 5;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const { return {}; }
  Rates at(Rates given, int64_t step) const;
};

}  // namespace ct::optim
