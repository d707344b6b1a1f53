#include "optim/exponential_lr.h"

#include <cmath>

#include "base/error.h"
#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> ExponentialLr::keys() {
  return {{"gamma", &gamma, "factor of the rate at every optimizer step", kNotNegative}};
}

std::optional<ConfigFault> ExponentialLr::fault() const {
  if (!gamma) return ConfigFault{"gamma", "must be given: the factor of the rate at every optimizer step"};
  return {};
}

Rates ExponentialLr::at(Rates given, int64_t step) const {
  check(gamma.has_value(), "ExponentialLR has no gamma");
  given.lr *= std::pow(*gamma, static_cast<double>(step));
  return given;
}

}  // namespace ct::optim
