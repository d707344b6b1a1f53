// The network with mixtures of experts: names, numbers and starts of parameters, its gate against DeepSpeed's formulas
// as dense masks, gradients against a scalar reference in double, what is refused.
#include "reference/cnn_moe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "graph/routing_draws.h"
#include "model/network.h"
#include "selftest/case_memory.h"

namespace ct {
namespace {

Graph graph_of(const CnnMoeKeys& keys, Mode mode = Mode::train) {
  return build_graph(find_model({.name = "cnn_moe", .cnn_moe = keys}),
                     {.batch = 8, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .mode = mode});
}
size_t index_of(const Graph& g, const std::string& name) {
  for (size_t i = 0; i < g.parameters().size(); ++i)
    if (g.parameters()[i].name == name) return i;
  fail(ExitCode::bug, "no parameter ", name);
}

TEST(CnnMoe, HasTheExamplesParameters) {
  EXPECT_EQ(graph_of({}).parameter_count(), 69230);
  EXPECT_EQ(graph_of({.num_experts = {2}}).parameter_count(), 76454);
  const Graph g = graph_of({.num_experts = {2, 4}, .mlp_type = MlpType::residual});
  EXPECT_EQ(g.parameter_count(), 62006 + 6 * 84 + 6 * (84 * 84 + 84) + 2 * (84 * 84 + 84 + 2 * 84 + 2));
  const std::string second = "moe_layer_list.1.";
  const std::map<std::string, std::vector<int64_t>> some{
      {"fc2.weight", {84, 120}},
      {"fc4.weight", {10, 84}},
      {second + "deepspeed_moe.gate.wg.weight", {4, 84}},
      {second + "deepspeed_moe.experts.deepspeed_experts.3.weight", {84, 84}},
      {second + "deepspeed_moe.experts.deepspeed_experts.3.bias", {84}},
      {second + "mlp.weight", {84, 84}},
      {second + "mlp.bias", {84}},
      {second + "coefficient.weight", {2, 84}},
      {second + "coefficient.bias", {2}}};
  for (const auto& [name, shape] : some) EXPECT_EQ(g.parameters()[index_of(g, name)].shape, shape) << name;
  for (const Parameter& p : g.parameters()) {
    EXPECT_NE(p.name, "fc3.weight");
    EXPECT_NE(p.name, second + "deepspeed_moe.gate.wg.bias");
  }
}

/// The example copies one layer.
TEST(CnnMoe, ExpertsBeginAlike) {
  const Graph g = graph_of({.num_experts = {2, 3}, .mlp_type = MlpType::residual});
  const auto values = [&](const std::string& name) { return initial_values(g, index_of(g, name), 42); };
  for (const char* part : {".weight", ".bias"}) {
    const std::vector<float> first =
        values("moe_layer_list.0.deepspeed_moe.experts.deepspeed_experts.0" + std::string(part));
    for (const char* other : {"0.deepspeed_moe.experts.deepspeed_experts.1",
                              "1.deepspeed_moe.experts.deepspeed_experts.2", "0.mlp", "1.mlp"})
      EXPECT_EQ(values("moe_layer_list." + std::string(other) + part), first) << other;
  }
  EXPECT_NE(values("moe_layer_list.0.coefficient.weight"), values("moe_layer_list.1.coefficient.weight"));
}

// ---- the gate

using Matrix = std::vector<std::vector<double>>;  // [rows][experts]

/// DeepSpeed's top1gating and top2gating (deepspeed/moe/sharded_moe.py) by their formulas on one-hot masks; what they
/// draw is given. combine[row][expert] is the weight of the row in whatever place it has.
struct Gating {
  Matrix combine;
  double aux = 0;
};
size_t largest(const std::vector<double>& row) {
  return static_cast<size_t>(std::ranges::max_element(row) - row.begin());
}
Matrix softmax_rows(const Matrix& logits) {
  Matrix gates;
  for (const auto& row : logits) gates.push_back(reference::softmax_of(row));
  return gates;
}
Matrix one_hot(const Matrix& values) {
  Matrix mask;
  for (const auto& row : values) {
    mask.emplace_back(row.size());
    mask.back()[largest(row)] = 1;
  }
  return mask;
}
Matrix sum(Matrix a, const Matrix& b) {
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t e = 0; e < a[i].size(); ++e) a[i][e] += b[i][e];
  return a;
}
double aux_of(const Matrix& gates, const Matrix& mask) {
  double aux = 0;
  const double n = static_cast<double>(gates.size()), experts = static_cast<double>(gates[0].size());
  for (size_t e = 0; e < gates[0].size(); ++e) {
    double me = 0, ce = 0;
    for (size_t i = 0; i < gates.size(); ++i) {
      me += gates[i][e] / n;
      ce += mask[i][e] / n;
    }
    aux += me * ce * experts;
  }
  return aux;
}

/// noise: added to the logits before the choice (RSample); uniform: by which random token selection ranks; both empty:
/// none, so that the first rows are taken.
Gating top1gating(const Matrix& logits, size_t capacity, const Matrix& noise, const Matrix& uniform) {
  Gating g{softmax_rows(logits), 0};
  Matrix mask = one_hot(noise.empty() ? logits : sum(logits, noise));
  g.aux = aux_of(g.combine, mask);
  for (size_t e = 0; e < logits[0].size(); ++e) {
    std::vector<size_t> taken;
    for (size_t i = 0; i < mask.size(); ++i)
      if (mask[i][e] == 1) taken.push_back(i);
    if (!uniform.empty())
      std::ranges::stable_sort(taken, [&](size_t a, size_t b) { return uniform[a][e] > uniform[b][e]; });
    for (size_t k = capacity; k < taken.size(); ++k) mask[taken[k]][e] = 0;
  }
  for (size_t i = 0; i < mask.size(); ++i)
    for (size_t e = 0; e < mask[i].size(); ++e) g.combine[i][e] *= mask[i][e];
  return g;
}

Gating top2gating(const Matrix& logits, double capacity, const Matrix& noise) {
  const Matrix gates = softmax_rows(logits);
  Matrix mask1 = one_hot(gates), except = noise.empty() ? logits : sum(logits, noise);
  for (size_t i = 0; i < except.size(); ++i) except[i][largest(gates[i])] = -std::numeric_limits<double>::infinity();
  Matrix mask2 = one_hot(except), combine(logits.size());
  const double aux = aux_of(gates, mask1);
  for (size_t e = 0; e < logits[0].size(); ++e) {
    double location = 0;
    for (Matrix* mask : {&mask1, &mask2})
      for (auto& row : *mask)
        if (row[e] == 1) row[e] = location++ < capacity ? 1 : 0;
  }
  for (size_t i = 0; i < logits.size(); ++i) {
    double first = 0, second = 0;
    for (size_t e = 0; e < logits[i].size(); ++e) {
      first += gates[i][e] * mask1[i][e];
      second += gates[i][e] * mask2[i][e];
    }
    const double denominator = std::max(first + second, static_cast<double>(std::numeric_limits<float>::epsilon()));
    for (size_t e = 0; e < logits[i].size(); ++e)
      combine[i].push_back((first * mask1[i][e] + second * mask2[i][e]) / denominator);
  }
  return {combine, aux};
}

struct GateCase {
  int64_t rows, experts, capacity;
  int top_k;
  bool drawn, sampled;
};

TEST(CnnMoe, GateIsDeepSpeeds) {
  const auto backend = make_cpu_backend();
  backend->enter_thread();
  const DropoutKey key{7, 3, 5};
  constexpr int kNumber = 2;
  for (const GateCase& c : {GateCase{16, 4, 4, 1, false, false},
                            {16, 4, 4, 1, true, false},
                            {16, 4, 4, 1, true, true},
                            {64, 3, 10, 1, true, true},
                            {9, 2, 9, 1, true, true},
                            {16, 4, 8, 2, false, false},
                            {16, 4, 8, 2, true, false},
                            {50, 5, 7, 2, true, false},
                            {6, 2, 3, 2, true, false}}) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows to " << c.top_k << " of " << c.experts);
    Random random(11, Purpose::synthetic);
    Matrix logits, noise, uniform;
    std::vector<double> flat;
    for (int64_t row = 0; row < c.rows; ++row) {
      for (Matrix* m : {&logits, &noise, &uniform}) m->emplace_back();
      for (int64_t e = 0; e < c.experts; ++e) {
        flat.push_back(static_cast<float>(4 * random.uniform() - 2));
        logits.back().push_back(flat.back());
        noise.back().push_back(static_cast<double>(gumbel_noise(key, kNumber, row * c.experts + e)));
        uniform.back().push_back(routing_priority(key, kNumber, row * c.experts + e) * 0x1p-32);
      }
    }
    if (!c.drawn) noise = uniform = {};
    if (c.top_k == 1 && !c.sampled) noise = {};
    const Gating want = c.top_k == 1 ? top1gating(logits, static_cast<size_t>(c.capacity), noise, uniform)
                                     : top2gating(logits, static_cast<double>(c.capacity), noise);
    OpCase made;
    const auto add = [&](const Shape& shape, DType dtype, std::vector<double> before) {
      made.operands.push_back({.value = {.shape = shape, .dtype = dtype}, .before = std::move(before)});
      return static_cast<ValueId>(made.operands.size() - 1);
    };
    std::vector<double> bytes(sizeof key);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = reinterpret_cast<const uint8_t*>(&key)[i];
    made.op = Route{.logits = add({c.rows, c.experts}, DType::f32, flat),
                    .key = c.drawn ? add({sizeof key}, DType::u8, bytes) : kNone,
                    .slots = add({c.rows * c.top_k}, DType::i32, {}),
                    .sources = add({c.experts * c.capacity}, DType::i32, {}),
                    .weights = add({c.rows * c.top_k}, DType::f32, {}),
                    .load = add({c.experts}, DType::f32, {}),
                    .balance = add({1}, DType::f32, {}),
                    .capacity = c.capacity,
                    .top_k = c.top_k,
                    .sampled = c.sampled,
                    .balance_coefficient = 0,
                    .number = kNumber};
    const Route& op = std::get<Route>(made.op);
    CaseInMemory memory(*backend, made);
    memory.launch();
    const auto at = [&](ValueId id, size_t i) { return memory.memory()[static_cast<size_t>(id)].element(i); };
    Matrix combine(static_cast<size_t>(c.rows), std::vector<double>(static_cast<size_t>(c.experts)));
    std::vector<int> used(static_cast<size_t>(c.experts * c.capacity));
    for (size_t i = 0; i < static_cast<size_t>(c.rows * c.top_k); ++i) {
      const double slot = at(op.slots, i);
      if (slot < 0) {
        EXPECT_EQ(at(op.weights, i), 0);
        continue;
      }
      ++used[static_cast<size_t>(slot)];
      EXPECT_EQ(at(op.sources, static_cast<size_t>(slot)), static_cast<double>(i));
      combine[i / static_cast<size_t>(c.top_k)][static_cast<size_t>(slot) / static_cast<size_t>(c.capacity)] +=
          at(op.weights, i);
    }
    for (size_t slot = 0; slot < used.size(); ++slot) {
      EXPECT_LE(used[slot], 1);
      EXPECT_EQ(at(op.sources, slot) >= 0, used[slot] == 1);
    }
    for (size_t row = 0; row < combine.size(); ++row)
      for (size_t e = 0; e < combine[row].size(); ++e)
        EXPECT_NEAR(combine[row][e], want.combine[row][e], 1e-6) << row << " by " << e;
    EXPECT_NEAR(at(op.balance, 0), want.aux, 1e-6);
  }
}

/// Draws belong to training.
TEST(CnnMoe, EvaluationDrawsNothing) {
  const CnnMoeKeys keys{.num_experts = {4}, .noisy_gate_policy = GateNoise::jitter, .eval_capacity_factor = 4};
  for (const Mode mode : {Mode::train, Mode::evaluate}) {
    const Graph g = graph_of(keys, mode);
    int routes = 0, jitters = 0;
    for (const ComputeOp& op : g.ops()) {
      if (const auto* route = std::get_if<Route>(&op)) {
        ++routes;
        EXPECT_EQ(route->key == kNone, mode == Mode::evaluate);
        EXPECT_EQ(route->balance == kNone, mode == Mode::evaluate);
        EXPECT_EQ(route->capacity, mode == Mode::train ? 2 : 8);
      }
      jitters += std::holds_alternative<Jitter>(op) ? 1 : 0;
    }
    EXPECT_EQ(routes, 1);
    EXPECT_EQ(jitters, mode == Mode::train ? 2 : 0);  // forward and backward
  }
}

// ---- gradients

TEST(CnnMoe, GradientIsTheComplexStepOfItsLoss) {
  for (const reference::CnnMoe& s : {reference::CnnMoe{.experts = {2, 3}},
                                     {.experts = {3}, .residual = true, .aux_coefficient = 0.5},
                                     {.experts = {2, 2}, .top_k = 2, .residual = true, .aux_coefficient = 0.25}}) {
    SCOPED_TRACE(testing::Message() << s.experts.size() << " mixtures, " << s.top_k);
    const CnnMoeKeys keys{.num_experts = {s.experts.begin(), s.experts.end()},
                          .top_k = s.top_k,
                          .min_capacity = 6,  // nothing is dropped
                          .mlp_type = s.residual ? MlpType::residual : MlpType::standard,
                          .aux_loss_coefficient = s.aux_coefficient};
    Network network(find_model({.name = "cnn_moe", .cnn_moe = keys}), 6, kSgd, 0.05);
    for (uint64_t index : {2, 3, 4}) {  // experts begin alike
      network.feed(index);
      network.step();
    }
    const reference::Batch batch = network.feed(1);
    network.micro_step();
    const reference::Parameters<double> values = network.parameters(), gradients = network.gradients();
    reference::NamedParameters<Complex> p;
    const auto& params = network.graph().parameters();
    for (size_t i = 0; i < params.size(); ++i) p[params[i].name] = {values[i].begin(), values[i].end()};
    reference::CnnMoe without = s;
    without.aux_coefficient = 0;
    EXPECT_NEAR(network.loss(), reference::cnn_moe_loss(without, p, batch).real(), 1e-5);
    for (size_t i = 0; i < params.size(); ++i) {
      double largest = 1e-6;
      for (const double g : gradients[i]) largest = std::max(largest, std::abs(g));
      for (const size_t j : {size_t{0}, gradients[i].size() / 2, gradients[i].size() - 1}) {
        Complex& moved = p[params[i].name][j];
        const Complex kept = moved;
        moved += Complex(0, reference::kComplexStep);
        const double derivative = reference::cnn_moe_loss(s, p, batch).imag() / reference::kComplexStep;
        moved = kept;
        EXPECT_NEAR(gradients[i][j], derivative, 400 * kEps * largest) << params[i].name << " element " << j;
      }
    }
  }
}

TEST(CnnMoe, LearnsInBothPrecisions) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    const CnnMoeKeys keys{.num_experts = {2, 4},
                          .mlp_type = MlpType::residual,
                          .capacity_factor = 4,  // nothing is dropped, here or there
                          .eval_capacity_factor = 4};
    Network network(find_model({.name = "cnn_moe", .cnn_moe = keys}), 8, kSgd, 0.02, 42, 32, compute);
    network.feed(0);
    const double first = network.step();
    for (int step = 0; step < 1000; ++step) network.step();
    EXPECT_LT(network.step(), first / 4) << name_of(compute);
    EXPECT_LT(network.evaluate(0), first / 4) << name_of(compute);
  }
}

TEST(CnnMoe, RefusesWhatDoesNotGoTogether) {
  const auto fault = [](const CnnMoeKeys& keys) {
    const Model model{.name = "cnn_moe", .cnn_moe = keys};
    return model.fault() ? model.fault()->key : "";
  };
  EXPECT_EQ(fault({}), "");
  EXPECT_EQ(fault({.num_experts = {2, 4}, .top_k = 2}), "");
  EXPECT_EQ(fault({.num_experts = {}}), "num_experts");
  EXPECT_EQ(fault({.num_experts = std::vector<double>(9, 2.0)}), "num_experts");
  EXPECT_EQ(fault({.num_experts = {2, 0}}), "num_experts");
  EXPECT_EQ(fault({.num_experts = {2.5}}), "num_experts");
  EXPECT_EQ(fault({.num_experts = {65}}), "num_experts");
  EXPECT_EQ(fault({.num_experts = {2, 1}, .top_k = 2}), "top_k");
}

}  // namespace
}  // namespace ct
