#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "plan/lower.h"
#include "plan/memory.h"

namespace ct {
namespace {

const UpdateRule kAdam{.optimizer = optim::AdamW{}};
constexpr int kBlocks = 4;

/// Residual blocks of three convolutions between a stem and a head, each a unit.
ValueId blocks(Graph& g, ValueId images, int classes) {
  const auto conv = [&](ValueId x, const std::string& name) {
    return g.conv2d(x, name, 16, 3, {.pad = 1, .bias = false});
  };
  g.begin_unit("stem");
  ValueId h = g.batchnorm(conv(images, "conv"), "bn", Activation::relu);
  for (int i = 0; i < kBlocks; ++i) {
    const std::string name = "block" + std::to_string(i);
    g.begin_unit(name);
    ValueId inside = g.batchnorm(conv(h, name + ".conv1"), name + ".bn1", Activation::relu);
    inside = g.relu(g.batchnorm(conv(inside, name + ".conv2"), name + ".bn2"));
    h = g.batchnorm(conv(inside, name + ".conv3"), name + ".bn3", Activation::relu, h);
  }
  g.begin_unit("head");
  return g.linear(g.average_pool(h), "fc", classes);
}

/// A layer a unit, with results that are views.
ValueId layers(Graph& g, ValueId images, int classes) {
  const ValueId h = g.max_pool(g.relu(g.conv2d(images, "conv", 16, 5)), 2);
  return g.linear(g.linear(g.flatten(h), "fc1", 64, {.activation = Activation::relu}), "fc2", classes);
}

Graph graph(const Builder& model) {
  return build_graph(model, {.batch = 4, .classes = 10, .scale = {1, 1, 1}, .shift = {0, 0, 0}});
}

std::vector<const Step*> recomputed(const Program& program) {
  std::vector<const Step*> steps;
  for (const Step& step : program)
    if (step.is_recompute) steps.push_back(&step);
  return steps;
}

std::map<std::string, int> count(const Program& program, bool is_recompute) {
  std::map<std::string, int> counts;
  for (const Step& step : program)
    if (step.is_recompute == is_recompute) ++counts[std::string(name_of(step.op))];
  return counts;
}

TEST(Recompute, TakesWhatTheBackwardPassNeedsAndNothingKept) {
  const Graph g = graph(blocks);
  const LoweredProgram l = lower_training(g, kAdam, {}, Recompute::blocks);
  // Of a block all convolutions, but not the last batch norm: its result is the next block's input.
  EXPECT_EQ(count(l.last, true),
            (std::map<std::string, int>{{"conv2d", 1 + 3 * kBlocks}, {"batch_norm", 2 * kBlocks}, {"relu", kBlocks}}));
  const LoweredProgram plain = lower_training(g, kAdam, {});
  EXPECT_TRUE(recomputed(plain.last).empty());
  EXPECT_EQ(count(l.last, false), count(plain.last, false));
  EXPECT_EQ(count(l.micro, true), count(l.last, true));
}

TEST(Recompute, RepeatsOperationsOfTheForwardPassBeforeTheirUnitsGradients) {
  for (const Builder& model : {Builder(blocks), Builder(layers)}) {
    const LoweredProgram l = lower_training(graph(model), kAdam, {}, Recompute::blocks);
    ASSERT_FALSE(recomputed(l.last).empty());
    std::map<ValueId, int> written, read;  // by value: how often, and in which step last
    for (size_t i = 0; i < l.last.size(); ++i) {
      const Step& step = l.last[i];
      for (ValueId id : writes(step.op)) {
        const ValueId value = origin(l.values, id).value;
        if (l[value].category != MemoryCategory::activations || l[id].base != kNone) continue;
        EXPECT_EQ(written[value]++, step.is_recompute ? 1 : 0) << l[value].name;
      }
      for (ValueId id : reads(step.op)) read[origin(l.values, id).value] = static_cast<int>(i);
    }
    for (const Step* step : recomputed(l.last))  // not in vain
      EXPECT_TRUE(std::ranges::any_of(writes(step->op), [&](ValueId id) {
        return read[origin(l.values, id).value] > step - l.last.data();
      })) << name_of(step->op);
  }
}

TEST(Recompute, NeedsLessMemory) {
  const Graph g = graph(blocks);
  for (const Distribution& d :
       {Distribution{}, {.ranks = 2, .accumulation = 2, .zero_stage = 2}, {.ranks = 2, .zero_stage = 3}}) {
    const auto activations = [&](Recompute recompute) {
      const LoweredProgram l = lower_training(g, kAdam, d, recompute);
      return memory_use(l, plan_memory(l)).activations;
    };
    EXPECT_LT(activations(Recompute::blocks), 0.7 * static_cast<double>(activations(Recompute::none)));
  }
}

TEST(Recompute, ValuesAreDeadBetweenTheirTwoLives) {
  const LoweredProgram l = lower_training(graph(blocks), kAdam, {}, Recompute::blocks);
  const MemoryPlan plan = plan_memory(l);
  int twice = 0;
  for (const Step* step : recomputed(l.last))
    for (ValueId id : writes(step->op)) {
      const auto& lives = plan.values[static_cast<size_t>(id)].lives;
      for (const Range& life : lives) EXPECT_LT(life.begin, life.end);
      EXPECT_TRUE(std::ranges::any_of(lives, [&](const Range& life) { return life.begin == step->time; }))
          << l[id].name;
      twice += lives.size() > 2;  // of micro and last
    }
  EXPECT_GT(twice, 0);
}

TEST(Recompute, Stage3GathersAUnitOnceForBoth) {
  const auto gathers = [](Recompute recompute) {
    const LoweredProgram l = lower_training(graph(blocks), kAdam, {.ranks = 2, .zero_stage = 3}, recompute);
    return std::ranges::count_if(l.last, [](const Step& s) {
      return std::holds_alternative<CommOp>(s.op) && std::holds_alternative<AllGather>(std::get<CommOp>(s.op));
    });
  };
  EXPECT_EQ(gathers(Recompute::blocks), gathers(Recompute::none));
}

TEST(Recompute, ThePlanSaysIt) {
  const LoweredProgram l = lower_training(graph(blocks), kAdam, {}, Recompute::blocks);
  EXPECT_NE(to_text(l, plan_memory(l)).find("(recompute)"), std::string::npos);
  const LoweredProgram plain = lower_training(graph(blocks), kAdam, {});
  EXPECT_EQ(to_text(plain, plan_memory(plain)).find("(recompute)"), std::string::npos);
}

}  // namespace
}  // namespace ct
