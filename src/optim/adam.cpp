#include "optim/adam.h"

#include <cmath>

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> AdamW::keys() {
  return {lr_key(lr),
          {"betas", &betas, "decay of the moments", kFraction},
          {"eps", &eps, "added to the root of the second moment", kNotNegative},
          {"bias_correction", &bias_correction, "of the moments, which begin at 0", {}},
          weight_decay_key(weight_decay),
          no_decay_key(no_decay)};
}

std::vector<ConfigKey> Adam::keys() {
  std::vector<ConfigKey> keys = AdamW::keys();
  keys.insert(keys.end() - 1, {"adam_w_mode", &adam_w_mode, "decoupled decay; false: L2", {}});
  return keys;
}

std::array<double, kCoefficients> AdamW::coefficients(const Rates& rates, int64_t applied) const {
  const auto [beta1, beta2] = rates.betas;
  if (!bias_correction) return {beta1, beta2, 1, 1};
  const double t = static_cast<double>(applied + 1);
  return {beta1, beta2, 1 - std::pow(beta1, t), 1 - std::pow(beta2, t)};
}

}  // namespace ct::optim
