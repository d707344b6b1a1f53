#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "optim/rates.h"

namespace ct::optim {

enum class WarmupType : uint8_t { log, linear };
constexpr auto words_of(WarmupType) { return std::to_array<std::string_view>({"log", "linear"}); }

/// DeepSpeed's WarmupLR, which knows nothing of the optimizer's rate. The k-th applied step (k from 1) uses the value
/// at it = k - 2: gamma = ln(it+1)/ln(W) or it/W below W, then 1; lr = min + (max - min) gamma. The first two steps use
/// min.
struct WarmupLr {
  static constexpr std::string_view kType = "WarmupLR", kOverridesLr = "warmup_max_lr";
  double warmup_min_lr = 0, warmup_max_lr = 1e-3;
  int64_t warmup_num_steps = 1000;  // W; at least 2 are used
  WarmupType warmup_type = WarmupType::log;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const { return {}; }
  Rates at(Rates given, int64_t step) const;
};

}  // namespace ct::optim
