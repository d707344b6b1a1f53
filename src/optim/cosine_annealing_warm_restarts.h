#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "optim/rates.h"

namespace ct::optim {

/// PyTorch's CosineAnnealingWarmRestarts (SGDR; Loshchilov & Hutter, 2017), in applied steps: from the optimizer's rate
/// along half a cosine towards eta_min in T_0 steps, and again, each time in T_mult times as many steps.
struct CosineAnnealingWarmRestarts {
  static constexpr std::string_view kType = "CosineAnnealingWarmRestarts", kOverridesLr = "";
  int64_t t_0 = 0;  // 0: not given
  int64_t t_mult = 1;
  double eta_min = 0;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const;
  Rates at(Rates given, int64_t step) const;
};

}  // namespace ct::optim
