#include "optim/sgd.h"

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> Sgd::keys() {
  return {lr_key(lr),
          {"momentum", &momentum, "0: none", kNotNegative},
          {"dampening", &dampening, "", {.only = "0"}},
          {"nesterov", &nesterov, "", {}},
          weight_decay_key(weight_decay),
          no_decay_key(no_decay)};
}

std::optional<ConfigFault> Sgd::fault() const {
  if (nesterov && momentum <= 0) return ConfigFault{"nesterov", "needs a momentum above 0"};
  return {};
}

}  // namespace ct::optim
