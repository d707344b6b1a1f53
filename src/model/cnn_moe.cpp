#include "model/cnn_moe.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/expert_capacity.h"
#include "graph/routing_draws.h"

namespace ct {
namespace {

constexpr int64_t kMostMixtures = 8, kWidth = 84;

std::string mixture_name(size_t number) { return "moe_layer_list." + std::to_string(number); }
std::string expert_name(size_t mixture, int64_t expert) {
  return mixture_name(mixture) + ".deepspeed_moe.experts.deepspeed_experts." + std::to_string(expert);
}

/// All experts begin as copies of one layer.
LinearOptions like_first(const std::string& name) {
  const std::string first = expert_name(0, 0);
  return {.begins_as = name == first ? "" : first};
}

ValueId mixture(Graph& g, ValueId x, size_t number, const CnnMoeKeys& k) {
  const std::string name = mixture_name(number);
  const auto experts = static_cast<int64_t>(k.num_experts[number]);
  g.begin_unit(name);
  const ValueId seen = k.noisy_gate_policy == GateNoise::jitter ? g.jitter(x) : x;
  const ValueId logits = g.linear(seen, name + ".deepspeed_moe.gate.wg", experts, {.bias = false, .f32 = true});
  const int top_k = static_cast<int>(k.top_k);
  const double factor = g.mode() == Mode::train ? k.capacity_factor : k.eval_capacity_factor;
  const Routing routing =
      g.route(logits, {.top_k = top_k,
                       .capacity = expert_capacity(g.shape(x)[0], experts, top_k, factor, k.min_capacity),
                       .sampled = k.noisy_gate_policy == GateNoise::rsample,
                       .balance_coefficient = k.aux_loss_coefficient});
  Ids rows = g.dispatch(x, routing);
  for (size_t e = 0; e < rows.size(); ++e) {
    const std::string expert = expert_name(number, static_cast<int64_t>(e));
    rows[e] = g.linear(rows[e], expert, kWidth, like_first(expert));
  }
  const ValueId y = g.combine(rows, routing);
  switch (k.mlp_type) {
    case MlpType::standard:
      return y;
    case MlpType::residual:
      break;
  }
  const ValueId all = g.linear(x, name + ".mlp", kWidth, like_first(name + ".mlp"));
  return g.softmax_mix(y, all, g.linear(x, name + ".coefficient", 2, {.f32 = true}));
}

}  // namespace

std::vector<ConfigKey> CnnMoeKeys::keys() {
  const ConfigRule factor{.min = 0, .max = 1e6, .above_min = true};
  return {
      {"num_experts", &num_experts, "a list: the number of experts of each mixture, in sequence"},
      {"top_k", &top_k, "number of experts of an image", {.min = 1, .max = 2}},
      {"mlp_type", &mlp_type, "standard | residual (a further layer processes all images)"},
      {"noisy_gate_policy", &noisy_gate_policy, "in training: none | RSample | Jitter"},
      {"min_capacity", &min_capacity, "least capacity of an expert, in images of a micro-batch", {.min = 0}},
      {"capacity_factor", &capacity_factor, "capacity of an expert, as a multiple of an even share of the micro-batch",
       factor},
      {"eval_capacity_factor", &eval_capacity_factor, "the same in evaluation", factor},
      {"aux_loss_coefficient", &aux_loss_coefficient, "weight of the load-balancing loss", {.min = 0, .max = 1e6}},
      {"moe_param_group", &moe_param_group, "accepted without effect: experts are trained like all other parameters"}};
}

std::optional<ConfigFault> CnnMoeKeys::fault() const {
  if (num_experts.empty() || std::ssize(num_experts) > kMostMixtures)
    return ConfigFault{"num_experts",
                       str("must be a list of 1 to ", kMostMixtures, " numbers, found ", num_experts.size())};
  for (const double n : num_experts) {
    if (n != std::floor(n) || n < 1 || n > static_cast<double>(kMostExperts))
      return ConfigFault{"num_experts", str("must be whole numbers from 1 to ", kMostExperts, ", found ", n)};
    if (static_cast<double>(top_k) > n)
      return ConfigFault{"top_k", str("is 2, and a mixture has one expert: use top_k 1, or more experts")};
  }
  return {};
}

ValueId cnn_moe(Graph& g, ValueId images, int classes, const CnnMoeKeys& keys) {
  ValueId h = g.conv_relu_pool(images, "conv1", 6, 5);
  h = g.flatten(g.conv_relu_pool(h, "conv2", 16, 5));
  h = g.linear(h, "fc1", 120, {.activation = Activation::relu});
  h = g.linear(h, "fc2", kWidth, {.activation = Activation::relu});
  for (size_t i = 0; i < keys.num_experts.size(); ++i) h = mixture(g, h, i, keys);
  g.begin_unit("fc4");
  return g.linear(h, "fc4", classes);
}

}  // namespace ct
