#include "optim/lamb.h"

#include <cmath>

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> Lamb::keys() {
  return {lr_key(lr),
          {"betas", &betas, "decay of the moments", kFraction},
          {"eps", &eps, "added to the root of the second moment", kPositive},
          {"max_coeff", &max_coeff, "the most that a tensor's rate is multiplied by", kNotNegative},
          {"min_coeff", &min_coeff, "the least", kNotNegative},
          {"bias_correction", &bias_correction, "of the moments, which begin at 0", {}},
          weight_decay_key(weight_decay),
          no_decay_key(no_decay)};
}

std::optional<ConfigFault> Lamb::fault() const {
  if (min_coeff > max_coeff) return ConfigFault{"min_coeff", "must be at most max_coeff"};
  return {};
}

std::array<double, kCoefficients> Lamb::coefficients(const Rates& rates, int64_t applied) const {
  const auto [beta1, beta2] = rates.betas;
  const double t = static_cast<double>(applied + 1);
  return {beta1, beta2, bias_correction ? std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t)) : 1};
}

TrustRatios Lamb::trust(std::vector<TrustRatios::Tensor> tensors, ValueId scalars, ValueId weight_sums,
                        ValueId update_sums, ValueId ratios) const {
  for (TrustRatios::Tensor& t : tensors) t.weight_decay = 0;  // it is in the update, whose norm is taken
  return {.tensors = std::move(tensors),
          .scalars = scalars,
          .weight_sums = weight_sums,
          .update_sums = update_sums,
          .ratios = ratios,
          .coefficient = 1,
          .eps = 0,
          .least = min_coeff,
          .most = max_coeff,
          .of_gradients = false,
          .by_rate = false};
}

}  // namespace ct::optim
