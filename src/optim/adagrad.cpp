#include "optim/adagrad.h"

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> Adagrad::keys() {
  return {lr_key(lr),
          {"lr_decay", &lr_decay, "the rate is divided by 1 + this * steps", kNotNegative},
          {"initial_accumulator_value", &initial_accumulator_value, "", {.only = "0"}},
          {"eps", &eps, "added to the root of the sum of squares", kPositive},
          weight_decay_key(weight_decay),
          no_decay_key(no_decay)};
}

}  // namespace ct::optim
