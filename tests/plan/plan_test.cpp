#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "plan/lower.h"
#include "plan/memory.h"

namespace ct {
namespace {

ValueId net(Graph& g, ValueId images, int classes) {
  ValueId h = g.max_pool(g.relu(g.conv2d(images, "conv", 6, 5)), 2);
  h = g.linear(g.flatten(h), "fc1", 100, Activation::relu);
  return g.linear(h, "fc2", classes);
}

Graph graph(Mode mode = Mode::train) {
  return build_graph(net, {.batch = 2, .classes = 10, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .mode = mode});
}

const UpdateRule kAdam{.optimizer = AdamRule{}};

TEST(Flat, EveryParameterOnceAlignedAndInsideItsUnit) {
  const Graph g = graph();
  const FlatLayout flat = flatten_parameters(g);
  ASSERT_EQ(flat.units.size(), 3u);
  int64_t covered = 0;
  for (size_t i = 0; i < flat.parameters.size(); ++i) {
    const Range& r = flat.parameters[i];
    EXPECT_EQ(r.begin % kRowPad, 0);
    EXPECT_EQ(r.size(), g.parameters()[i].layout.stored);
    const Range& unit = flat.units[static_cast<size_t>(g.parameters()[i].unit)];
    EXPECT_GE(r.begin, unit.begin);
    EXPECT_LE(r.end, unit.end);
    for (size_t j = 0; j < i; ++j) {
      const Range& other = flat.parameters[j];
      EXPECT_TRUE(r.end <= other.begin || other.end <= r.begin);
    }
    covered += r.size();
  }
  const int64_t chunked = std::accumulate(flat.chunks.begin(), flat.chunks.end(), int64_t{0},
                                          [](int64_t n, const Range& c) { return n + c.size(); });
  EXPECT_EQ(chunked, covered);
}

TEST(Flat, ShardsAreWholeChunksWhateverTheRanks) {
  const FlatLayout flat = flatten_parameters(graph());
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const auto bounds = shard_bounds(flat, ranks);
    ASSERT_EQ(bounds.size(), static_cast<size_t>(ranks) + 1);
    EXPECT_EQ(bounds.front(), 0);
    EXPECT_EQ(bounds.back(), flat.numel);
    for (int r = 1; r < ranks; ++r) {
      const int64_t b = bounds[static_cast<size_t>(r)];
      EXPECT_LE(bounds[static_cast<size_t>(r) - 1], b);
      const bool starts_a_chunk = b == flat.numel || std::any_of(flat.chunks.begin(), flat.chunks.end(),
                                                                 [&](const Range& c) { return c.begin == b; });
      EXPECT_TRUE(starts_a_chunk) << b;
    }
  }
}

TEST(Flat, DecayRangesSplitVectorsFromMatrices) {
  const Graph g = graph();
  const FlatLayout flat = flatten_parameters(g);
  EXPECT_EQ(decay_ranges(g, flat, true).size(), 1u);
  const auto ranges = decay_ranges(g, flat, false);
  EXPECT_EQ(ranges.size(), 6u);
  EXPECT_TRUE(ranges[0].decays);
  EXPECT_FALSE(ranges[1].decays);
  EXPECT_EQ(ranges.front().range.begin, 0);
  EXPECT_EQ(ranges.back().range.end, flat.numel);
}

TEST(Dealing, EveryMicroBatchOnce) {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int a = 1; a <= 6; ++a)
      for (int stage : {0, 2}) {
        const Distribution d{.ranks = ranks, .accumulation = a, .zero_stage = stage};
        std::vector<int> seen(static_cast<size_t>(d.micro_batches()));
        for (int r = 0; r < ranks; ++r)
          for (int j = 0; j < a; ++j) ++seen[static_cast<size_t>(d.micro_batch(r, j))];
        EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
      }
}

TEST(Lowering, PowerOfTwoSendsOneSubtreeOthersMeetEveryMicroStep) {
  const auto kinds = [](const Program& p) {
    std::vector<std::string> names;
    for (const Step& s : p)
      if (const std::string name(name_of(s.op)); std::holds_alternative<CommOp>(s.op) || name == "tree_push")
        names.push_back(name);
    return names;
  };
  using Names = std::vector<std::string>;
  Lowered l = lower_training(graph(), kAdam, {.ranks = 2, .accumulation = 4});
  EXPECT_EQ(kinds(l.micro), Names{"tree_push"});
  EXPECT_EQ(kinds(l.last), (Names{"tree_push", "all_reduce"}));
  l = lower_training(graph(), kAdam, {.ranks = 2, .accumulation = 3});
  EXPECT_EQ(kinds(l.micro), Names{"reduce_scatter"});
  EXPECT_EQ(kinds(l.last), (Names{"reduce_scatter", "all_gather"}));
  l = lower_training(graph(), kAdam, {.ranks = 1, .accumulation = 1});
  EXPECT_EQ(kinds(l.last), Names{});
}

TEST(Lowering, RefusesStagesThatAreNotBuilt) {
  for (int stage : {1, 2, 3}) {
    try {
      lower_training(graph(), kAdam, {.zero_stage = stage});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      EXPECT_NE(std::string(e.what()).find("stage " + std::to_string(stage)), std::string::npos);
    }
  }
}

TEST(Memory, ValuesAliveTogetherNeverOverlap) {
  const Lowered l = lower_training(graph(), kAdam, {.accumulation = 2});
  const std::vector<size_t> workspace(l.micro.size(), 1000);
  const MemoryPlan plan = plan_memory(l, workspace, workspace);
  std::vector<MemoryPlan::Place> places = plan.values;
  places.insert(places.end(), plan.workspace.begin(), plan.workspace.end());
  int64_t sum = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto& a = places[i];
    if (a.offset < 0) continue;
    sum += a.bytes;
    EXPECT_EQ(a.offset % 64, 0);
    EXPECT_LE(a.offset + a.bytes, plan.arena_bytes);
    for (size_t j = 0; j < i; ++j) {
      const auto& b = places[j];
      if (b.offset < 0 || a.last < b.first || b.last < a.first) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << i << " and " << j;
    }
  }
  EXPECT_LT(plan.arena_bytes, sum);  // something is shared
}

TEST(Memory, EveryOperandOfEveryStepHasAPlaceOrIsResident) {
  const Lowered l = lower_training(graph(), kAdam, {.accumulation = 2});
  const MemoryPlan plan = plan_memory(l);
  for (const Program* program : {&l.micro, &l.last})
    for (size_t i = 0; i < program->size(); ++i) {
      Ids ids = reads((*program)[i].op);
      for (ValueId v : writes((*program)[i].op)) ids.push_back(v);
      for (ValueId v : ids) {
        const ValueId at = origin(l.values, v).value;
        const auto& place = plan.values[static_cast<size_t>(at)];
        if (l[at].home == Home::resident) continue;
        EXPECT_GE(place.offset, 0) << l[v].name;
        EXPECT_LE(place.first, static_cast<int>(i));
        EXPECT_GE(place.last, static_cast<int>(i));
      }
    }
}

TEST(Memory, FlattenedImageIsAViewWithoutAnOperation) {
  const auto aligned = [](Graph& g, ValueId images, int classes) { return g.linear(g.flatten(images), "fc", classes); };
  const Graph g = build_graph(aligned, {.batch = 2, .scale = {1, 1, 1}, .shift = {0, 0, 0}});
  const Lowered l = lower_training(g, kAdam, {});
  for (const Step& s : l.last) EXPECT_NE(name_of(s.op), "flatten");
  const Lowered padded = lower_training(graph(), kAdam, {});  // 14*14*6 is no multiple of the row pad
  int copies = 0;
  for (const Step& s : padded.last) copies += name_of(s.op) == "flatten" || name_of(s.op) == "flatten_grad";
  EXPECT_EQ(copies, 2);
}

TEST(Text, NamesOperationsAndPlaces) {
  const Lowered l = lower_training(graph(), kAdam, {.ranks = 2});
  const std::string text = to_text(l, plan_memory(l));
  for (const char* word : {"conv2d", "all_reduce", "adam", "arena:", "exp_avg_sq", "conv.weight"})
    EXPECT_NE(text.find(word), std::string::npos) << word;
}

}  // namespace
}  // namespace ct
