#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "optim/rates.h"
#include "optim/warmup.h"

namespace ct::optim {

/// DeepSpeed's WarmupCosineLR: the optimizer's rate times a ratio, which warms up from warmup_min_ratio to 1 and then
/// falls along half a cosine to cos_min_ratio, where it stays after total_num_steps (DeepSpeed's rises again). The
/// first step's rate is 0.
struct WarmupCosineLr {
  static constexpr std::string_view kType = "WarmupCosineLR", kOverridesLr = "";
  std::optional<int64_t> total_num_steps;  // applied steps; absent: the run's
  double warmup_min_ratio = 0;
  int64_t warmup_num_steps = 1000;
  double cos_min_ratio = 1e-4;
  WarmupType warmup_type = WarmupType::log;
  bool rises_again = false;  // no key: goes on along the cosine after total_num_steps, as DeepSpeed's does

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const { return {}; }
  std::string doubt() const;
  /// Takes the length of the run where none was given.
  void fit_run(int64_t steps) { total_num_steps = total_num_steps.value_or(steps); }
  Rates at(Rates given, int64_t step) const;
};

}  // namespace ct::optim
