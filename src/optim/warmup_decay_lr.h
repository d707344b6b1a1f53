#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "optim/rates.h"
#include "optim/warmup_lr.h"

namespace ct::optim {

/// DeepSpeed's WarmupDecayLR: as WarmupLR, then in a straight line to warmup_min_lr at iteration total_num_steps, where
/// it stays.
struct WarmupDecayLr : WarmupLr {
  static constexpr std::string_view kType = "WarmupDecayLR";
  std::optional<int64_t> total_num_steps;  // applied steps; absent: the run's

  std::vector<ConfigKey> keys();
  std::string doubt() const;
  /// Takes the length of the run where none was given.
  void fit_run(int64_t steps) { total_num_steps = total_num_steps.value_or(steps); }
  Rates at(Rates given, int64_t step) const;
};

}  // namespace ct::optim
