// The network of DeepSpeed's CIFAR-10 example with mixtures of experts: the last layer but one of the tutorial's
// network is replaced by a sequence of mixtures, one for each element of `num_experts`, whose experts are linear layers
// (Shazeer et al., 2017; Rajbhandari et al., "DeepSpeed-MoE", 2022). Names, gates and initial values are DeepSpeed's.
#pragma once

#include <optional>
#include <vector>

#include "base/choice.h"
#include "base/config_key.h"
#include "graph/graph.h"

namespace ct {

/// residual: a further linear layer processes every image, and a learnt softmax mixes its result with the experts'.
enum class MlpType : uint8_t { standard, residual };
constexpr auto words_of(MlpType) { return std::to_array<std::string_view>({"standard", "residual"}); }

/// Noise in training. RSample: on the logits that select the expert with top_k 1; Jitter: on the gate's input.
enum class GateNoise : uint8_t { none, rsample, jitter };
constexpr auto words_of(GateNoise) { return std::to_array<std::string_view>({"none", "RSample", "Jitter"}); }

struct CnnMoeKeys {
  std::vector<double> num_experts = {1};  // of each mixture
  int64_t top_k = 1, min_capacity = 0;
  MlpType mlp_type = MlpType::standard;
  GateNoise noisy_gate_policy = GateNoise::none;
  double capacity_factor = 1, eval_capacity_factor = 1, aux_loss_coefficient = 0;
  bool moe_param_group = false;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const;
};

/// With one expert 69,230 parameters, with two 76,454.
ValueId cnn_moe(Graph& g, ValueId images, int classes, const CnnMoeKeys& keys);

}  // namespace ct
