#include "optim/one_cycle.h"

#include <cmath>

#include "base/error.h"
#include "optim/keys.h"
#include "optim/warmup.h"

namespace ct::optim {
namespace {

constexpr double kBeta2 = 0.99;

/// How high the cycle stands at iteration `it`, 0 <= it < first + second: from 0 to 1 and back. In DeepSpeed's order,
/// for its very bits.
double height(int64_t it, int64_t first, int64_t second) {
  const auto size = static_cast<double>(first + second);
  const double turns = 1 + static_cast<double>(it + 1) / size, x = turns - std::floor(turns);
  const double peak = static_cast<double>(first) / size;
  return x <= peak ? x / peak : (x - 1) / (peak - 1);
}

}  // namespace

std::vector<ConfigKey> OneCycle::keys() {
  return {
      {"cycle_min_lr", &cycle_min_lr, "rate at the beginning and the end of the cycle; overrides the optimizer's lr",
       kNotNegative},
      {"cycle_max_lr", &cycle_max_lr, "rate at the peak of the cycle", kNotNegative},
      {"decay_lr_rate", &decay_lr_rate, "after the cycle: min / (1 + this * steps / decay_step_size)", kNotNegative},
      {"cycle_first_step_size", &cycle_first_step_size, "optimizer steps to the peak", {.min = 1}},
      {"cycle_second_step_size",
       &cycle_second_step_size,
       "optimizer steps from the peak back; absent: as many",
       {.min = 0}},
      {"decay_step_size", &decay_step_size, "0: no decay after the cycle", {.min = 0}},
      {"cycle_momentum", &cycle_momentum, "overrides the optimizer's betas", {}},
      {"cycle_min_mom", &cycle_min_mom, "the first beta at the peak of the rate", kFraction},
      {"cycle_max_mom", &cycle_max_mom, "the first beta at the lowest rate", kFraction},
      {"decay_mom_rate", &decay_mom_rate, "after the cycle: max * (1 + this * steps / decay_step_size)", kNotNegative}};
}

std::optional<ConfigFault> OneCycle::fault() const {
  if (!cycle_min_lr)
    return ConfigFault{"cycle_min_lr", "must be given: the rate at the beginning and the end of the cycle"};
  if (!cycle_max_lr) return ConfigFault{"cycle_max_lr", "must be given: the rate at the cycle's peak"};
  return {};
}

std::optional<ConfigFault> OneCycle::fault_of_run(int64_t steps) const {
  const double last = steps > 0 && cycle_momentum ? at({}, steps - 1).betas[0] : 0;  // after the cycle it only grows
  if (last < 1) return {};
  return ConfigFault{"decay_mom_rate",
                     str("takes the first of the optimizer's betas, which must stay below 1, to ", last, " by step ",
                         steps, ", the run's last: lower it, or raise decay_step_size")};
}

std::string OneCycle::overrides_betas() const {
  return cycle_momentum
             ? str("the first falls from ", cycle_max_mom, " to ", cycle_min_mom, " and back, the second is ", kBeta2)
             : "";
}

Rates OneCycle::at(Rates given, int64_t step) const {
  check(cycle_min_lr && cycle_max_lr, "OneCycle has no rates");
  const int64_t first = cycle_first_step_size, second = cycle_second_step_size.value_or(first);
  const int64_t it = deepspeed_iteration(step), after = it - (first + second) + 1;
  double lr = *cycle_min_lr, momentum = cycle_min_mom;
  if (after > 0) {
    const double decay = decay_step_size > 0 ? static_cast<double>(after) / static_cast<double>(decay_step_size) : 0;
    lr /= 1 + decay_lr_rate * decay;
    momentum = cycle_max_mom * (1 + decay_mom_rate * decay);
  } else if (it >= 0) {
    const double scale = height(it, first, second);
    lr += (*cycle_max_lr - *cycle_min_lr) * scale;
    momentum = cycle_max_mom - (cycle_max_mom - cycle_min_mom) * scale;
  }
  given.lr = lr;
  if (cycle_momentum) given.betas = {momentum, kBeta2};
  return given;
}

}  // namespace ct::optim
