// Adam (Kingma & Ba, 2015) and AdamW (Loshchilov & Hutter, 2019). DeepSpeed's "Adam" is AdamW unless adam_w_mode is
// false.
#pragma once

#include <cmath>

#include "graph/optimizer_rules.h"
#include "optim/keys.h"
#include "optim/rates.h"

namespace ct::optim {

struct AdamW {
  static constexpr std::string_view kType = "AdamW";
  static constexpr BetasAre kBetas = BetasAre::pair;
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  NoDecay no_decay = NoDecay::none;
  bool bias_correction = true;

  std::vector<ConfigKey> keys() {
    return {lr_key(lr),
            {"betas", &betas, "decay of the moments", kFraction},
            {"eps", &eps, "added to the square root of the second moment", kNotNegative},
            {"bias_correction", &bias_correction, "corrects the bias of moments that start at 0", {}},
            weight_decay_key(weight_decay),
            no_decay_key(no_decay)};
  }
  std::string_view decay() const { return "decoupled (AdamW)"; }
  Rates rates() const { return {lr, betas}; }
  rules::Adam::Coefficients coefficients(const Rates& rates, int64_t applied) const {
    const auto [beta1, beta2] = rates.betas;
    const double t = static_cast<double>(applied + 1);
    return {.beta1 = beta1,
            .beta2 = beta2,
            .bias_correction1 = bias_correction ? 1 - std::pow(beta1, t) : 1,
            .bias_correction2 = bias_correction ? 1 - std::pow(beta2, t) : 1};
  }
  rules::Adam rule() const { return {.form = rules::Adam::decoupled, .eps = eps}; }
};

struct Adam : AdamW {
  static constexpr std::string_view kType = "Adam";
  bool adam_w_mode = true;  // decoupled decay; false: L2

  std::vector<ConfigKey> keys() {
    std::vector<ConfigKey> keys = AdamW::keys();
    keys.insert(keys.end() - 1, {"adam_w_mode", &adam_w_mode, "decoupled decay; false: L2", {}});
    return keys;
  }
  std::string_view decay() const { return adam_w_mode ? AdamW::decay() : "L2"; }
  rules::Adam rule() const { return {.form = adam_w_mode ? rules::Adam::decoupled : rules::Adam::l2, .eps = eps}; }
};

}  // namespace ct::optim
