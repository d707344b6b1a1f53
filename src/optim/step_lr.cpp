#include "optim/step_lr.h"

#include <cmath>

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> StepLr::keys() {
  return {{"step_size", &step_size, "optimizer steps at one rate", {.min = 1}},
          {"gamma", &gamma, "factor of the rate after every step_size steps", kNotNegative}};
}

std::optional<ConfigFault> StepLr::fault() const {
  if (step_size < 1) return ConfigFault{"step_size", "must be given: the optimizer steps at one rate"};
  return {};
}

Rates StepLr::at(Rates given, int64_t step) const {
  given.lr *= std::pow(gamma, static_cast<double>(step / step_size));
  return given;
}

}  // namespace ct::optim
