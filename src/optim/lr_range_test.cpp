#include "optim/lr_range_test.h"

#include <cmath>

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> LrRangeTest::keys() {
  return {{"lr_range_test_min_lr", &lr_range_test_min_lr, "the first rate; overrides the optimizer's lr", kNotNegative},
          {"lr_range_test_step_size", &lr_range_test_step_size, "optimizer steps", {.min = 1}},
          {"lr_range_test_step_rate", &lr_range_test_step_rate,
           "growth in lr_range_test_step_size steps, as a multiple of the first rate", kNotNegative},
          {"lr_range_test_staircase", &lr_range_test_staircase, "true: grows in stairs; false: linearly"}};
}

Rates LrRangeTest::at(Rates given, int64_t step) const {
  double stairs = static_cast<double>(step) / static_cast<double>(lr_range_test_step_size);
  if (lr_range_test_staircase) stairs = std::floor(stairs);
  given.lr = lr_range_test_min_lr * (1 + lr_range_test_step_rate * stairs);
  return given;
}

}  // namespace ct::optim
