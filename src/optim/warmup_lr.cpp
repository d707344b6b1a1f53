#include "optim/warmup_lr.h"

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> WarmupLr::keys() {
  return {{"warmup_min_lr", &warmup_min_lr, "", kNotNegative},
          {"warmup_max_lr", &warmup_max_lr, "overrides the optimizer's lr", kNotNegative},
          {"warmup_num_steps", &warmup_num_steps, "optimizer steps", {.min = 0}},
          {"warmup_type", &warmup_type, "log | linear"}};
}

Rates WarmupLr::at(Rates given, int64_t step) const {
  const int64_t it = deepspeed_iteration(step), warmup = warmup_steps(warmup_num_steps);
  const double gamma = is_warm(it, warmup) ? 1 : it < 0 ? 0 : warmup_share(warmup_type, it, warmup);
  given.lr = warmup_min_lr + (warmup_max_lr - warmup_min_lr) * gamma;
  return given;
}

}  // namespace ct::optim
