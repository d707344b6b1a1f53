#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "optim/rates.h"

namespace ct::optim {

/// PyTorch's CosineAnnealingLR (Loshchilov & Hutter, 2017, without restarts), in applied steps: from the optimizer's
/// rate along half a cosine to eta_min at step T_max; after that, as PyTorch's, up again and down again.
struct CosineAnnealingLr {
  static constexpr std::string_view kType = "CosineAnnealingLR", kOverridesLr = "";
  std::optional<int64_t> t_max;  // applied steps; absent: the run's
  double eta_min = 0;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const { return {}; }
  /// Takes the length of the run where none was given.
  void fit_run(int64_t steps) { t_max = t_max.value_or(steps > 0 ? steps : 1); }
  Rates at(Rates given, int64_t step) const;
};

}  // namespace ct::optim
