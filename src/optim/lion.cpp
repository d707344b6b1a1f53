#include "optim/lion.h"

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> Lion::keys() {
  return {lr_key(lr),
          {"betas", &betas, "decay of the momentum that is looked at, and of the one that is kept", kFraction},
          weight_decay_key(weight_decay),
          no_decay_key(no_decay)};
}

}  // namespace ct::optim
