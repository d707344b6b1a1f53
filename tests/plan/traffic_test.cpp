#include "plan/traffic.h"

#include <gtest/gtest.h>

#include "plan/lower.h"

namespace ct {
namespace {

ValueId net(Graph& g, ValueId images, int classes) {
  ValueId h = g.max_pool(g.relu(g.conv2d(images, "conv", 6, 5)), 2);
  h = g.linear(g.flatten(h), "fc1", 100, {.activation = Activation::relu});
  return g.linear(h, "fc2", classes);
}

Graph graph(DType compute = DType::f32) {
  return build_graph(net, {.batch = 2, .classes = 10, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .compute = compute});
}

LoweredProgram lowered(const Graph& g, const Distribution& d) {
  return lower_training(g, {.optimizer = optim::AdamW{}}, d);
}

/// Elements of the flat order, which is all that collectives move if padding moves along.
double stored(const Graph& g) { return static_cast<double>(flatten_parameters(g).numel); }
/// Without the padding between parameters.
double unpadded(const Graph& g) {
  double n = 0;
  for (const Range& r : flatten_parameters(g).parameters) n += static_cast<double>(r.size());
  return n;
}

/// Between the multiple of the parameters alone and of the parameters with their padding, which is a few per mille.
void expect_multiple(const Graph& g, const Distribution& d, double factor) {
  const double part = (d.ranks - 1.0) / d.ranks, moved = step_traffic(lowered(g, d)).training.elements;
  EXPECT_GE(moved, factor * part * unpadded(g) - 0.5) << "stage " << d.zero_stage << ", " << d.ranks << " ranks";
  EXPECT_LE(moved, factor * part * stored(g) + 0.5) << "stage " << d.zero_stage << ", " << d.ranks << " ranks";
}

TEST(Traffic, FollowsTheFormulasOfEveryStage) {
  const Graph g = graph();
  EXPECT_LT(stored(g), 1.01 * unpadded(g));
  for (const int ranks : {2, 3, 4})
    for (const int a : {1, 2, 3, 4}) {
      const bool whole_subtree = (a & (a - 1)) == 0;
      for (const int stage : {0, 1})
        expect_multiple(g, {.ranks = ranks, .accumulation = a, .zero_stage = stage}, whole_subtree ? 2 : a + 1);
      expect_multiple(g, {.ranks = ranks, .accumulation = a, .zero_stage = 2}, a + 1);
    }
}

// The first layers' parameters are gathered once for both passes if nothing lies between their uses; the others twice.
TEST(Traffic, StageThreeGathersForBothPassesOfEveryMicroStep) {
  const Graph g = graph();
  const FlatLayout flat = flatten_parameters(g);
  const auto first = static_cast<double>(flat.units.front().size());
  for (const int a : {1, 2, 3}) {
    const Distribution d{.ranks = 2, .accumulation = a, .zero_stage = 3};
    const double moved = 2 * step_traffic(lowered(g, d)).training.elements;  // (N - 1) / N is a half
    EXPECT_LE(moved, 3 * a * stored(g));
    EXPECT_GE(moved, 3 * a * unpadded(g) - a * first);  // the backward pass of the first layer needs no weights
  }
}

TEST(Traffic, Bf16WeightsAreHalfAsManyBytes) {
  const Graph f32 = graph(), bf16 = graph(DType::bf16);
  const Distribution d{.ranks = 2, .zero_stage = 1};
  const Moved full = step_traffic(lowered(f32, d)).training, half = step_traffic(lowered(bf16, d)).training;
  EXPECT_EQ(full.bytes, 4 * full.elements);
  EXPECT_NEAR(half.bytes, 3 * half.elements, 0.01 * half.bytes);  // gradients stay f32
}

TEST(Traffic, NormsAreCountedApartAndOneRankMovesNothing) {
  const Graph g = graph();
  const auto chunks = static_cast<double>(flatten_parameters(g).chunks.size());
  EXPECT_EQ(step_traffic(lowered(g, {.ranks = 4})).norms.elements, 0);
  for (const int stage : {1, 2, 3}) {
    const StepTraffic t = step_traffic(lowered(g, {.ranks = 4, .accumulation = 2, .zero_stage = stage}));
    EXPECT_EQ(t.norms.elements, 0.75 * chunks);
    EXPECT_EQ(t.norms.bytes, 8 * t.norms.elements);
    EXPECT_EQ(step_traffic(lowered(g, {.accumulation = 3, .zero_stage = stage})).training.elements, 0);
  }
}

}  // namespace
}  // namespace ct
