#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "optim/rates.h"

namespace ct::optim {

/// PyTorch's LinearLR, in applied steps: the optimizer's rate times a factor that goes from start_factor to end_factor
/// in total_iters steps, and stays: a warm-up, or, with the smaller factor last, a descent to a floor.
struct LinearLr {
  static constexpr std::string_view kType = "LinearLR", kOverridesLr = "";
  double start_factor = 1.0 / 3, end_factor = 1;
  int64_t total_iters = 5;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const { return {}; }
  Rates at(Rates given, int64_t step) const;
};

}  // namespace ct::optim
