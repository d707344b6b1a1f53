#include "optim/muon.h"

#include <algorithm>
#include <cmath>

#include "optim/keys.h"

namespace ct::optim {

std::vector<ConfigKey> Muon::keys() {
  return {lr_key(lr),
          {"momentum", &momentum, "", kFraction},
          {"nesterov", &nesterov, "", {}},
          {"ns_coefficients", &ns_coefficients, "a, b, c of the iteration that orthogonalises", {}},
          {"ns_steps", &ns_steps, "of that iteration", {.min = 1, .max = 99}},
          {"eps", &eps, "the least norm that a direction is divided by", kPositive},
          {"adjust_lr_fn", &adjust_lr_fn, "original | match_rms_adamw: how the rate follows a matrix's size", {}},
          {"adamw_lr", &adamw_lr, "of what is no matrix; absent: lr", kNotNegative},
          {"adamw_betas", &adamw_betas, "decay of its moments", kFraction},
          {"adamw_eps", &adamw_eps, "added to the root of its second moment", kNotNegative},
          weight_decay_key(weight_decay),
          no_decay_key(no_decay)};
}

std::optional<ConfigFault> Muon::fault() const {
  if (ns_coefficients.size() != 3) return ConfigFault{"ns_coefficients", "are three numbers"};
  if (adamw_lr && lr == 0) return ConfigFault{"adamw_lr", "needs an lr above 0, by whose schedule it goes"};
  return {};
}

std::array<double, kCoefficients> Muon::coefficients(const Rates& rates, int64_t applied) const {
  const auto [beta1, beta2] = rates.betas;
  const double t = static_cast<double>(applied + 1);
  return {beta1, beta2, 1 - std::pow(beta1, t), 1 - std::pow(beta2, t)};
}

double Muon::ratio(int64_t out, int64_t rest) const {
  const auto a = static_cast<double>(out), b = static_cast<double>(rest);
  return adjust_lr_fn == AdjustLr::original ? std::sqrt(std::max(1.0, a / b)) : 0.2 * std::sqrt(std::max(a, b));
}

Orthogonalize Muon::orthogonalize(Orthogonalize op, int64_t out, int64_t rest) const {
  op.steps = static_cast<int>(ns_steps);
  op.coefficients = {ns_coefficients.at(0), ns_coefficients.at(1), ns_coefficients.at(2)};
  op.eps = eps;
  op.scale = ratio(out, rest);
  return op;
}

}  // namespace ct::optim
