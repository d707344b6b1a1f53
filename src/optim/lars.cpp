#include "optim/lars.h"

#include <limits>

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> Lars::keys() {
  return {lr_key(lr),
          {"momentum", &momentum, "0: none", kNotNegative},
          {"dampening", &dampening, "", {.only = "0"}},
          {"nesterov", &nesterov, "", {}},
          {"trust_coeff", &trust_coeff, "of the ratio of a tensor's weights to its gradient", kNotNegative},
          {"eps", &eps, "added to the gradient's norm", kNotNegative},
          {"trust_clip", &trust_clip, "the ratio over the rate, at most 1", {}},
          {"always_adapt", &always_adapt, "tensors without decay too", {}},
          weight_decay_key(weight_decay),
          no_decay_key(no_decay)};
}

std::optional<ConfigFault> Lars::fault() const {
  if (nesterov && momentum <= 0) return ConfigFault{"nesterov", "needs a momentum above 0"};
  return {};
}

TrustRatios Lars::trust(std::vector<TrustRatios::Tensor> tensors, ValueId scalars, ValueId weight_sums,
                        ValueId gradient_sums, ValueId ratios) const {
  for (TrustRatios::Tensor& t : tensors) t.adapts = always_adapt || t.weight_decay != 0;
  return {.tensors = std::move(tensors),
          .scalars = scalars,
          .weight_sums = weight_sums,
          .update_sums = gradient_sums,
          .ratios = ratios,
          .coefficient = trust_coeff,
          .eps = eps,
          .least = 0,
          .most = trust_clip ? 1 : std::numeric_limits<double>::infinity(),
          .of_gradients = true,
          .by_rate = trust_clip};
}

}  // namespace ct::optim
