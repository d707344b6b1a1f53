#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "optim/rates.h"
#include "optim/warmup.h"

namespace ct::optim {

/// DeepSpeed's WarmupLR, which knows nothing of the optimizer's rate: lr = min + (max - min) gamma, where gamma is
/// warmup_share() while it warms up, then 1. The first two steps use min.
struct WarmupLr {
  static constexpr std::string_view kType = "WarmupLR", kOverridesLr = "warmup_max_lr";
  double warmup_min_lr = 0, warmup_max_lr = 1e-3;
  int64_t warmup_num_steps = 1000;
  WarmupType warmup_type = WarmupType::log;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const { return {}; }
  Rates at(Rates given, int64_t step) const;
};

}  // namespace ct::optim
