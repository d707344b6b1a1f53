#include "optim/cosine_annealing_warm_restarts.h"

#include <limits>

#include "optim/cosine.h"
#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> CosineAnnealingWarmRestarts::keys() {
  return {{"T_0", &t_0, "optimizer steps to the first restart", {.min = 1}},
          {"T_mult", &t_mult, "factor of the interval at every restart", {.min = 1}},
          {"eta_min", &eta_min, "the lowest rate", kNotNegative}};
}

std::optional<ConfigFault> CosineAnnealingWarmRestarts::fault() const {
  if (t_0 < 1) return ConfigFault{"T_0", "must be given: the optimizer steps to the first restart"};
  return {};
}

Rates CosineAnnealingWarmRestarts::at(Rates given, int64_t step) const {
  int64_t begin = 0, length = t_0;  // of the period that the step lies in
  if (t_mult == 1) begin = step / length * length;
  while (step - begin >= length) {  // as many turns as the step has digits in base T_mult
    begin += length;
    if (__builtin_mul_overflow(length, t_mult, &length)) length = std::numeric_limits<int64_t>::max();
  }
  given.lr = along_cosine(given.lr, eta_min, static_cast<double>(step - begin) / static_cast<double>(length));
  return given;
}

}  // namespace ct::optim
