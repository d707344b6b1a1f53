#include "optim/warmup_lr.h"

#include <algorithm>
#include <cmath>

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> WarmupLr::keys() {
  return {{"warmup_min_lr", &warmup_min_lr, "", kNotNegative},
          {"warmup_max_lr", &warmup_max_lr, "overrides the optimizer's lr", kNotNegative},
          {"warmup_num_steps", &warmup_num_steps, "optimizer steps", {.min = 0}},
          {"warmup_type", &warmup_type, "log | linear"}};
}

Rates WarmupLr::at(Rates given, int64_t step) const {
  const int64_t it = step - 1, warmup = std::max<int64_t>(2, warmup_num_steps);
  double gamma = it < 0 ? 0 : 1;
  if (it >= 0 && it < warmup)
    gamma = warmup_type == WarmupType::linear
                ? static_cast<double>(it) / static_cast<double>(warmup)
                : std::log(static_cast<double>(it + 1)) * (1.0 / std::log(static_cast<double>(warmup)));
  given.lr = warmup_min_lr + (warmup_max_lr - warmup_min_lr) * gamma;
  return given;
}

}  // namespace ct::optim
