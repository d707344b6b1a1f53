#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "optim/rates.h"

namespace ct::optim {

/// PyTorch's StepLR, in applied steps: lr = lr of the optimizer * gamma ^ floor(step / step_size).
struct StepLr {
  static constexpr std::string_view kType = "StepLR", kOverridesLr = "";
  int64_t step_size = 0;  // 0: not given
  double gamma = 0.1;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const;
  Rates at(Rates given, int64_t step) const;
};

}  // namespace ct::optim
