#include "optim/linear_lr.h"

#include <algorithm>

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> LinearLr::keys() {
  const ConfigRule part{.min = 0, .max = 1, .above_min = true};
  return {{"start_factor", &start_factor, "factor of the optimizer's lr at the first step", part},
          {"end_factor", &end_factor, "factor from step total_iters on", kShare},
          {"total_iters", &total_iters, "optimizer steps from start_factor to end_factor", {.min = 1}}};
}

Rates LinearLr::at(Rates given, int64_t step) const {
  const double share = static_cast<double>(std::min(step, total_iters)) / static_cast<double>(total_iters);
  given.lr *= start_factor + (end_factor - start_factor) * share;
  return given;
}

}  // namespace ct::optim
