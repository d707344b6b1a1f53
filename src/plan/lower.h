// Lowering converts a graph to one rank's program, according to the ZeRO stage.
#pragma once

#include <optional>
#include <vector>

#include "base/choice.h"
#include "optim/optimizer.h"
#include "optim/parameter_groups.h"
#include "plan/program.h"

namespace ct {

/// An exponential moving average of the weights: the parameters of Ema (graph/ops.h).
struct EmaOptions {
  double decay = 0;
  int64_t start = 0;
};

/// The part of the mean's division that precedes the sum: division by `factor`, or the whole division.
struct Predivision {
  bool whole = false;
  double factor = 1;  // unless whole
};

struct UpdateRule {
  optim::Optimizer optimizer;
  std::vector<optim::ParameterGroup> groups = {};
  double layer_decay = 1;  // see optim::treatments()
  double clip = 0;         // global norm; 0: off
  std::optional<LossScaleOptions> loss_scale = {};
  Predivision predivision = {};
  std::optional<EmaOptions> ema = {};
};

/// The values that the backward pass recomputes: none, or the activations inside the graph's units
/// (plan/lowering/recompute.cpp). The bits are the same.
enum class Recompute : uint8_t { none, blocks };
constexpr auto words_of(Recompute) { return std::to_array<std::string_view>({"none", "blocks"}); }

LoweredProgram lower_training(const Graph& graph, const UpdateRule& rule, const Distribution& distribution,
                              Recompute recompute = Recompute::none);

/// The forward pass over the parameters of a training program of the same model and distribution.
LoweredProgram lower_evaluation(const Graph& graph, const Distribution& distribution);

}  // namespace ct
