// Muon (Jordan, 2024) as torch.optim.Muon, for matrices and convolutions, as [out][rest]; other parameters use AdamW:
//   b += (1 - momentum) (g - b);  u = nesterov ? b + (1 - momentum) (g - b) : b
//   o = the matrix nearest to u with orthonormal rows or columns, by ns_steps iterations (graph/ops.h, Orthogonalize)
//   w -= lr (ratio o + weight_decay w), ratio = sqrt(max(1, out / rest)), or 0.2 sqrt(max(out, rest)), which gives
//   entries the size of AdamW's (match_rms_adamw)
// The iteration is in f32 (PyTorch's is in bf16). When layers compute in 16 bits, its matrices are rounded to bf16
// between products on GPUs, and large ones on CPUs that multiply in bf16.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "graph/ops.h"
#include "optim/adam.h"
#include "optim/keys.h"
#include "optim/rates.h"

namespace ct::optim {

/// The dependence of a step's length on the matrix's shape.
enum class AdjustLr : uint8_t { original, match_rms_adamw };
constexpr auto words_of(AdjustLr) { return std::to_array<std::string_view>({"original", "match_rms_adamw"}); }

struct Muon {
  static constexpr std::string_view kType = "Muon";
  static constexpr BetasAre kBetas = BetasAre::fixed_pair;
  double lr = 1e-3, momentum = 0.95;
  bool nesterov = true;
  std::vector<double> ns_coefficients = {3.4445, -4.7750, 2.0315};
  int64_t ns_steps = 5;
  double eps = 1e-7;
  AdjustLr adjust_lr_fn = AdjustLr::original;
  std::optional<double> adamw_lr;  // absent: lr
  std::array<double, 2> adamw_betas = {0.9, 0.999};
  double adamw_eps = 1e-8;
  double weight_decay = 0.1;
  NoDecay no_decay = NoDecay::none;

  std::vector<ConfigKey> keys() {
    return {lr_key(lr),
            {"momentum", &momentum, "", kFraction},
            {"nesterov", &nesterov, "", {}},
            {"ns_coefficients", &ns_coefficients, "a, b, c of the Newton-Schulz iteration", {}},
            {"ns_steps", &ns_steps, "number of Newton-Schulz iterations", {.min = 1, .max = 99}},
            {"eps", &eps, "lower bound of the norm that divides a direction", kPositive},
            {"adjust_lr_fn", &adjust_lr_fn, "original | match_rms_adamw: factor of the rate by a matrix's size", {}},
            {"adamw_lr", &adamw_lr, "rate of the parameters that are no matrices; absent: lr", kNotNegative},
            {"adamw_betas", &adamw_betas, "decay of their moments", kFraction},
            {"adamw_eps", &adamw_eps, "added to the square root of their second moment", kNotNegative},
            weight_decay_key(weight_decay),
            no_decay_key(no_decay)};
  }
  std::optional<ConfigFault> fault() const {
    if (ns_coefficients.size() != 3) return ConfigFault{"ns_coefficients", "must be three numbers"};
    if (adamw_lr && lr == 0) return ConfigFault{"adamw_lr", "needs an lr above 0, because lr's schedule scales it"};
    return {};
  }
  std::string_view decay() const { return "decoupled"; }

  /// The optimizer of the parameters that are no matrices; it has its own rate and coefficients.
  AdamW adamw() const { return {.betas = adamw_betas, .eps = adamw_eps, .weight_decay = weight_decay}; }
  /// AdamW's rate divided by Muon's.
  double adamw_share() const { return adamw_lr ? *adamw_lr / lr : 1; }
  Rates rates() const { return {lr, adamw_betas}; }
  rules::Adam::Coefficients coefficients(const Rates& rates, int64_t applied) const {
    return adamw().coefficients(rates, applied);
  }

  double ratio(int64_t out, int64_t rest) const {
    const auto a = static_cast<double>(out), b = static_cast<double>(rest);
    switch (adjust_lr_fn) {
      case AdjustLr::original:
        return std::sqrt(std::max(1.0, a / b));
      case AdjustLr::match_rms_adamw:
        return 0.2 * std::sqrt(std::max(a, b));
    }
    return 0;
  }
  MuonMomentum directions(std::vector<MuonMomentum::Slice> slices, ValueId scalars) const {
    return {std::move(slices), scalars, momentum, nesterov};
  }
  /// `op` has the operands.
  Orthogonalize orthogonalize(Orthogonalize op, int64_t out, int64_t rest) const {
    op.steps = static_cast<int>(ns_steps);
    op.coefficients = {ns_coefficients.at(0), ns_coefficients.at(1), ns_coefficients.at(2)};
    op.eps = eps;
    op.scale = ratio(out, rest);
    return op;
  }
  rules::Muon rule() const { return {}; }
};

}  // namespace ct::optim
