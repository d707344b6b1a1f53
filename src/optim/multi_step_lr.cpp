#include "optim/multi_step_lr.h"

#include <algorithm>
#include <cmath>

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> MultiStepLr::keys() {
  return {{"milestones", &milestones, "optimizer steps, a list", {.min = 1}},
          {"gamma", &gamma, "factor of the rate at each milestone", kNotNegative}};
}

std::optional<ConfigFault> MultiStepLr::fault() const {
  if (milestones.empty())
    return ConfigFault{"milestones", "must be given: the optimizer steps at which the rate changes"};
  const auto whole = [](double step) { return step == std::floor(step); };
  if (!std::ranges::all_of(milestones, whole))
    return ConfigFault{"milestones", "must be whole numbers: optimizer steps"};
  if (!std::ranges::is_sorted(milestones)) return ConfigFault{"milestones", "must be in ascending order"};
  return {};
}

Rates MultiStepLr::at(Rates given, int64_t step) const {
  const auto reached = std::ranges::upper_bound(milestones, static_cast<double>(step)) - milestones.begin();
  given.lr *= std::pow(gamma, static_cast<double>(reached));
  return given;
}

}  // namespace ct::optim
