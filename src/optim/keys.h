// Keys of every optimizer.
#pragma once

#include "base/config_key.h"
#include "optim/parameter_groups.h"

namespace ct::optim {

inline const ConfigRule kNotNegative{.min = 0}, kFraction{.min = 0, .max = 1, .below_max = true},
    kShare{.min = 0, .max = 1}, kPositive{.min = 0, .above_min = true};

inline ConfigKey lr_key(double& lr) { return {"lr", &lr, "learning rate", kNotNegative}; }
inline ConfigKey weight_decay_key(double& weight_decay) { return {"weight_decay", &weight_decay, "", kNotNegative}; }
/// A short form of a parameter group: see optim/parameter_groups.h.
inline ConfigKey no_decay_key(NoDecay& no_decay) {
  return {"no_decay", &no_decay, "vectors: no decay of biases and other vectors"};
}

}  // namespace ct::optim
