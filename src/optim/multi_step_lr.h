#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "optim/rates.h"

namespace ct::optim {

/// PyTorch's MultiStepLR, in applied steps: the optimizer's rate times gamma for every milestone that is reached.
struct MultiStepLr {
  static constexpr std::string_view kType = "MultiStepLR", kOverridesLr = "";
  std::vector<double> milestones;  // whole numbers, ascending
  double gamma = 0.1;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const;
  Rates at(Rates given, int64_t step) const;
};

}  // namespace ct::optim
