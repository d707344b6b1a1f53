#include "optim/polynomial_lr.h"

#include <algorithm>
#include <cmath>

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> PolynomialLr::keys() {
  return {{"total_iters", &total_iters, "optimizer steps until the rate is 0", {.min = 1}},
          {"power", &power, "1: linear decay", kPositive}};
}

Rates PolynomialLr::at(Rates given, int64_t step) const {
  const double left = 1 - static_cast<double>(std::min(step, total_iters)) / static_cast<double>(total_iters);
  given.lr *= std::pow(left, power);
  return given;
}

}  // namespace ct::optim
