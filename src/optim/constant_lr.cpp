#include "optim/constant_lr.h"

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> ConstantLr::keys() {
  return {{"factor", &factor, "factor of the optimizer's lr at first", kShare},
          {"total_iters", &total_iters, "optimizer steps until the factor is 1", {.min = 0}}};
}

Rates ConstantLr::at(Rates given, int64_t step) const {
  if (step < total_iters) given.lr *= factor;
  return given;
}

}  // namespace ct::optim
