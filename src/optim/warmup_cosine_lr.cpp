#include "optim/warmup_cosine_lr.h"

#include <numbers>

#include "base/error.h"
#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> WarmupCosineLr::keys() {
  const ConfigRule ratio{.min = 0, .max = 1};
  return {{"total_num_steps", &total_num_steps, "optimizer steps; absent or auto: the run's", {.min = 0}},
          {"warmup_min_ratio", &warmup_min_ratio, "factor of the optimizer's lr at the start", ratio},
          {"warmup_num_steps", &warmup_num_steps, "optimizer steps", {.min = 0}},
          {"cos_min_ratio", &cos_min_ratio, "factor of the optimizer's lr at the end", ratio},
          {"warmup_type", &warmup_type, "log | linear"}};
}

std::string WarmupCosineLr::doubt() const {
  const int64_t warmup = warmup_steps(warmup_num_steps);
  if (!total_num_steps || *total_num_steps > warmup) return "";
  return str("total_num_steps ", *total_num_steps, " is not more than warmup_num_steps ", warmup,
             ": the rate is at its lowest immediately after the warm-up; lower warmup_num_steps");
}

Rates WarmupCosineLr::at(Rates given, int64_t step) const {
  check(total_num_steps.has_value(), "WarmupCosineLR does not know how long the run is");
  const int64_t it = deepspeed_iteration(step), warmup = warmup_steps(warmup_num_steps);
  double ratio = 0;
  if (is_warm(it, warmup)) {
    const int64_t fallen = it - warmup + 1, fall = *total_num_steps - warmup;
    // In DeepSpeed's order, for its very bits.
    const double cosine = fallen < fall || (rises_again && fall > 0)
                              ? std::cos(std::numbers::pi * static_cast<double>(fallen) / static_cast<double>(fall))
                              : -1;
    ratio = cos_min_ratio + (1 - cos_min_ratio) * ((1 + cosine) / 2);
  } else if (it >= 0) {
    ratio = warmup_min_ratio + (1 - warmup_min_ratio) * warmup_share(warmup_type, it, warmup);
  }
  given.lr *= ratio;
  return given;
}

}  // namespace ct::optim
