#include "optim/warmup_decay_lr.h"

#include "base/error.h"

namespace ct::optim {

std::vector<ConfigKey> WarmupDecayLr::keys() {
  std::vector<ConfigKey> keys = WarmupLr::keys();
  keys.insert(keys.begin(),
              {"total_num_steps", &total_num_steps, "optimizer steps; absent or auto: the run's", {.min = 0}});
  return keys;
}

std::string WarmupDecayLr::doubt() const {
  const int64_t warmup = warmup_steps(warmup_num_steps);
  if (!total_num_steps || *total_num_steps > warmup) return "";
  return str("total_num_steps ", *total_num_steps, " is not more than warmup_num_steps ", warmup,
             ": the rate is at its lowest immediately after the warm-up; lower warmup_num_steps");
}

Rates WarmupDecayLr::at(Rates given, int64_t step) const {
  check(total_num_steps.has_value(), "WarmupDecayLR does not know how long the run is");
  const int64_t it = deepspeed_iteration(step), warmup = warmup_steps(warmup_num_steps);
  if (!is_warm(it, warmup)) return WarmupLr::at(given, step);
  // In DeepSpeed's order, for its very bits.
  const double left = static_cast<double>(*total_num_steps - it);
  const double fall = std::max(1.0, static_cast<double>(*total_num_steps - warmup));
  const double gamma = std::clamp(left / fall, 0.0, 1.0);
  given.lr = warmup_min_lr + (warmup_max_lr - warmup_min_lr) * gamma;
  return given;
}

}  // namespace ct::optim
