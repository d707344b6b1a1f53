#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "optim/rates.h"

namespace ct::optim {

/// DeepSpeed's OneCycle (after Smith & Topin, 2019): the rate goes from cycle_min_lr to cycle_max_lr and back, in
/// straight lines, the momentum from cycle_max_mom to cycle_min_mom and back; then both decay. It knows nothing of the
/// optimizer's rate, nor, with cycle_momentum, of its betas: the second is 0.99. The first step uses both minima.
struct OneCycle {
  static constexpr std::string_view kType = "OneCycle", kOverridesLr = "cycle_min_lr";
  std::optional<double> cycle_min_lr, cycle_max_lr;
  double decay_lr_rate = 0;
  int64_t cycle_first_step_size = 2000;
  std::optional<int64_t> cycle_second_step_size;  // absent: as the first
  int64_t decay_step_size = 0;
  bool cycle_momentum = true;
  double cycle_min_mom = 0.8, cycle_max_mom = 0.9, decay_mom_rate = 0;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const;
  std::optional<ConfigFault> fault_of_run(int64_t steps) const;
  std::string overrides_betas() const;
  Rates at(Rates given, int64_t step) const;
};

}  // namespace ct::optim
