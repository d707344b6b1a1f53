#include "optim/rmsprop.h"

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> RmsProp::keys() {
  return {lr_key(lr),
          {"alpha", &alpha, "decay of the mean square", kFraction},
          {"eps", &eps, "added to its root", kNotNegative},
          {"momentum", &momentum, "0: none", kNotNegative},
          {"centered", &centered, "divide by the deviation: the mean square less the mean's square", {}},
          weight_decay_key(weight_decay),
          no_decay_key(no_decay)};
}

}  // namespace ct::optim
