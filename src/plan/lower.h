// Lowering: a graph becomes one rank's program. What each ZeRO stage means is decided here.
#pragma once

#include <optional>
#include <vector>

#include "optim/optimizer.h"
#include "optim/parameter_groups.h"
#include "plan/program.h"

namespace ct {

struct UpdateRule {
  optim::Optimizer optimizer;
  std::vector<optim::ParameterGroup> groups = {};
  double clip = 0;  // global norm; 0: off
  std::optional<LossScaleOptions> loss_scale = {};
};

Lowered lower_training(const Graph& graph, const UpdateRule& rule, const Distribution& distribution);

/// The forward pass over the parameters of a training program of the same model and distribution.
Lowered lower_evaluation(const Graph& graph, const Distribution& distribution);

}  // namespace ct
