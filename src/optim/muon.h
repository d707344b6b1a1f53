// Muon (Jordan, 2024) as torch.optim.Muon, for matrices and convolutions, seen as [out][rest]; AdamW for all else:
//   b += (1 - momentum) (g - b);  u = nesterov ? b + (1 - momentum) (g - b) : b
//   o = the nearest to u with orthonormal rows or columns, by ns_steps of the iteration in graph/ops.h (Orthogonalize)
//   w -= lr (ratio o + weight_decay w), ratio = sqrt(max(1, out / rest)), or 0.2 sqrt(max(out, rest)), by which
//   entries are as large as AdamW's (match_rms_adamw)
// The iteration is in f32 whatever layers compute in (PyTorch's is in bf16).
#pragma once

#include <optional>

#include "base/config_key.h"
#include "graph/ops.h"
#include "optim/parameter_groups.h"
#include "optim/rates.h"

namespace ct::optim {

/// How a step's length depends on the matrix.
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

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const;
  std::string_view decay() const { return "decoupled"; }
  Rates rates() const { return {lr, adamw_betas}; }
  std::array<double, kCoefficients> coefficients(const Rates& rates, int64_t applied) const;
  /// Of matrices; of all else; see Lowering::update_by_muon.
  std::vector<std::string> states() const { return {"momentum_buffer", "exp_avg", "exp_avg_sq"}; }

  /// AdamW's rate over Muon's.
  double adamw_share() const { return adamw_lr ? *adamw_lr / lr : 1; }
  double ratio(int64_t out, int64_t rest) const;
  MuonMomentum directions(std::vector<MuonMomentum::Slice> slices, ValueId scalars) const {
    return {std::move(slices), scalars, momentum, nesterov};
  }
  /// `op` says where.
  Orthogonalize orthogonalize(Orthogonalize op, int64_t out, int64_t rest) const;
  ComputeOp op(Update update) const { return ct::Muon{std::move(update)}; }
  ComputeOp adamw(Update update) const { return ct::Adam{std::move(update), adamw_eps, AdamMode::decoupled}; }
};

}  // namespace ct::optim
