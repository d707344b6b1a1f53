#include "optim/cosine_annealing_lr.h"

#include "base/error.h"
#include "optim/cosine.h"
#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> CosineAnnealingLr::keys() {
  return {{"T_max", &t_max, "optimizer steps to the lowest rate; absent or auto: the run's", {.min = 1}},
          {"eta_min", &eta_min, "the lowest rate", kNotNegative}};
}

Rates CosineAnnealingLr::at(Rates given, int64_t step) const {
  check(t_max.has_value(), "CosineAnnealingLR does not know how long the run is");
  given.lr = along_cosine(given.lr, eta_min, static_cast<double>(step) / static_cast<double>(*t_max));
  return given;
}

}  // namespace ct::optim
