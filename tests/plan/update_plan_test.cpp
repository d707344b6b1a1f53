// The updates of optimizers that know of whole tensors and matrices: what each rank does of them.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "plan/lower.h"

namespace ct {
namespace {

Graph network() {
  return build_graph(
      [](Graph& g, ValueId images, int classes) {
        const ValueId h = g.max_pool(g.batchnorm(g.conv2d(images, "conv", 16, 3), "bn", Activation::relu), 2);
        return g.linear(g.linear(g.flatten(h), "hidden", 90, {.activation = Activation::relu}), "out", classes);
      },
      {.batch = 1, .classes = 10, .scale = {1, 1, 1}, .shift = {0, 0, 0}});
}

LoweredProgram lowered(const optim::Optimizer& optimizer, int rank, int ranks, int stage) {
  return lower_training(network(), {.optimizer = optimizer}, {.ranks = ranks, .rank = rank, .zero_stage = stage});
}

template <class Op>
std::vector<Op> ops_of(const Program& program) {
  std::vector<Op> found;
  for (const Step& step : program)
    if (const auto* compute = std::get_if<ComputeOp>(&step.op))
      if (const auto* op = std::get_if<Op>(compute)) found.push_back(*op);
  return found;
}

TEST(UpdatePlan, ChunksOfParametersAreAllChunksOnce) {
  const Graph graph = network();
  const FlatLayout flat = flatten_parameters(graph);
  const std::vector<Range> numbers = chunks_of_parameters(flat);
  int64_t elements = 0, count = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    count += numbers[i].size();
    for (int64_t k = numbers[i].begin; k < numbers[i].end; ++k) {
      const Range& chunk = flat.chunks[static_cast<size_t>(k)];
      EXPECT_TRUE(chunk.begin >= flat.parameters[i].begin && chunk.end <= flat.parameters[i].end);
      elements += chunk.size();
    }
    if (graph.parameters()[i].statistic) {
      EXPECT_EQ(numbers[i].size(), 0);
    } else {
      elements -= graph.parameters()[i].layout.stored;
    }
  }
  EXPECT_EQ(count, static_cast<int64_t>(flat.chunks.size()));
  EXPECT_EQ(elements, 0);
}

/// Each chunk's sums are one rank's, or every rank's where states are whole.
TEST(UpdatePlan, LambAddsEveryChunkOnce) {
  for (const int stage : {0, 1, 2, 3})
    for (const int ranks : {1, 3}) {
      std::map<int64_t, int> added;
      int64_t chunks = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const LoweredProgram program = lowered(optim::Lamb{}, rank, ranks, stage);
        chunks = static_cast<int64_t>(program.flat.chunks.size());
        for (const LambMoments& op : ops_of<LambMoments>(program.update))
          for (const LambMoments::Slice& slice : op.slices)
            for (const SquareSums::Chunk& chunk : slice.chunks) {
              ++added[chunk.sum];
              EXPECT_EQ(chunk.range.size(), program.flat.chunks[static_cast<size_t>(chunk.sum)].size());
              EXPECT_TRUE(chunk.range.begin >= 0 && chunk.range.end <= program[slice.masters].shape.numel());
            }
        ASSERT_EQ(ops_of<TrustRatios>(program.update).size(), 1u);
      }
      EXPECT_EQ(static_cast<int64_t>(added.size()), chunks);
      for (const auto& [chunk, times] : added) EXPECT_EQ(times, stage == 0 ? ranks : 1) << chunk;
    }
}

TEST(UpdatePlan, EveryMatrixHasOneOwner) {
  for (const int stage : {0, 1, 2, 3})
    for (const int ranks : {1, 2, 4}) {
      std::multiset<std::pair<int64_t, int64_t>> shapes;
      for (int rank = 0; rank < ranks; ++rank) {
        const LoweredProgram program = lowered(optim::Muon{}, rank, ranks, stage);
        for (const Orthogonalize& op : ops_of<Orthogonalize>(program.update)) {
          const Shape& left = program[op.left].shape;
          shapes.insert({left[0], left[1]});
          EXPECT_EQ(program[op.x].shape.numel(), left[0] * op.stride);
          EXPECT_LE(stored_bytes(program[op.left]), stored_bytes(program[origin(program.values, op.left).value]));
          EXPECT_LE(stored_bytes(program[op.gram]), stored_bytes(program[origin(program.values, op.gram).value]));
        }
      }
      EXPECT_EQ(shapes, (std::multiset<std::pair<int64_t, int64_t>>{{16, 27}, {90, 16 * 15 * 15}, {10, 90}}))
          << "stage " << stage << ", " << ranks << " ranks";
    }
}

TEST(UpdatePlan, MuonKeepsMomentumOfMatricesAlone) {
  const Graph graph = network();
  int64_t matrices = 0, others = 0;
  for (const Parameter& p : graph.parameters())
    if (!p.statistic) (p.is_vector() ? others : matrices) += p.layout.stored;
  for (const int ranks : {1, 3}) {
    int64_t momentum = 0, moments = 0;
    for (int rank = 0; rank < ranks; ++rank)
      for (const HeldState& state : lowered(optim::Muon{}, rank, ranks, /*stage=*/1).states)
        for (const ct::Run& run : state.held) {
          if (state.name == "momentum_buffer") momentum += run.range.size();
          if (state.name == "exp_avg") moments += run.range.size();
        }
    EXPECT_GE(momentum, matrices);
    EXPECT_LT(momentum, matrices + 16 * 3);
    EXPECT_GE(moments, others);
    EXPECT_LT(moments, others + 16 * 4);
  }
}

}  // namespace
}  // namespace ct
