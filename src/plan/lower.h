// Lowering: a graph becomes one rank's program. What each ZeRO stage means is decided here.
#pragma once

#include <optional>
#include <variant>

#include "plan/program.h"

namespace ct {

struct AdamRule {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  AdamMode mode = AdamMode::decoupled;
};
struct SgdRule {
  double momentum = 0;
  bool nesterov = false;
};
struct UpdateRule {
  std::variant<AdamRule, SgdRule> optimizer;
  double weight_decay = 0;
  bool decay_vectors = true;
  double clip = 0;  // global norm; 0: off
  std::optional<LossScaleOptions> loss_scale = {};
};

Lowered lower_training(const Graph& graph, const UpdateRule& rule, const Distribution& distribution);

/// The forward pass over the parameters of a training program of the same model and distribution.
Lowered lower_evaluation(const Graph& graph, const Distribution& distribution);

}  // namespace ct
