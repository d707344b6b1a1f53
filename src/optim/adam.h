// Adam (Kingma & Ba, 2015) and AdamW (Loshchilov & Hutter, 2019). DeepSpeed's "Adam" is AdamW unless told otherwise.
#pragma once

#include <optional>

#include "base/config_key.h"
#include "graph/ops.h"
#include "optim/parameter_groups.h"
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

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const { return {}; }
  std::string_view decay() const { return "decoupled (AdamW)"; }
  Rates rates() const { return {lr, betas}; }
  std::array<double, kCoefficients> coefficients(const Rates& rates, int64_t applied) const;
  std::vector<std::string> states() const { return {"exp_avg", "exp_avg_sq"}; }
  ComputeOp op(Update update) const { return ct::Adam{std::move(update), eps, AdamMode::decoupled}; }
};

struct Adam : AdamW {
  static constexpr std::string_view kType = "Adam";
  bool adam_w_mode = true;  // decay is decoupled, as AdamW's always is; false: L2

  std::vector<ConfigKey> keys();
  std::string_view decay() const { return adam_w_mode ? AdamW::decay() : "L2"; }
  ComputeOp op(Update update) const {
    return ct::Adam{std::move(update), eps, adam_w_mode ? AdamMode::decoupled : AdamMode::l2};
  }
};

}  // namespace ct::optim
