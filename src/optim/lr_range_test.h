#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "optim/rates.h"

namespace ct::optim {

/// DeepSpeed's LRRangeTest (Smith, 2017), which knows nothing of the optimizer's rate: from lr_range_test_min_lr the
/// rate grows by lr_range_test_step_rate times that in every lr_range_test_step_size steps, steadily or in stairs.
struct LrRangeTest {
  static constexpr std::string_view kType = "LRRangeTest", kOverridesLr = "lr_range_test_min_lr";
  double lr_range_test_min_lr = 1e-3;
  int64_t lr_range_test_step_size = 2000;
  double lr_range_test_step_rate = 1;
  bool lr_range_test_staircase = false;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const { return {}; }
  Rates at(Rates given, int64_t step) const;
};

}  // namespace ct::optim
