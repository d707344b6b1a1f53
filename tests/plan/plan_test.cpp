#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "plan/buckets.h"
#include "plan/lower.h"
#include "plan/memory.h"

namespace ct {
namespace {

ValueId net(Graph& g, ValueId images, int classes) {
  ValueId h = g.max_pool(g.relu(g.conv2d(images, "conv", 6, 5)), 2);
  h = g.linear(g.flatten(h), "fc1", 100, {.activation = Activation::relu});
  return g.linear(h, "fc2", classes);
}

Graph graph(Mode mode = Mode::train) {
  return build_graph(net, {.batch = 2, .classes = 10, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .mode = mode});
}

const UpdateRule kAdam{.optimizer = optim::AdamW{}};

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

TEST(Flat, GrainsAreWholeRowsAndChunksLieInThem) {
  const Graph g = graph();
  const FlatLayout flat = flatten_parameters(g);
  for (const Range& grain : flat.grains) {
    size_t owner = flat.parameters.size();
    for (size_t i = 0; i < flat.parameters.size(); ++i)
      if (flat.parameters[i].begin <= grain.begin && grain.end <= flat.parameters[i].end) owner = i;
    ASSERT_LT(owner, flat.parameters.size());
    const int64_t row = g.parameters()[owner].layout.strides[0];
    EXPECT_EQ((grain.begin - flat.parameters[owner].begin) % row, 0);
    EXPECT_EQ(grain.size() % row, 0);
    EXPECT_LE(grain.size(), std::max(row, kChunk));
  }
  for (const Range& chunk : flat.chunks) {
    EXPECT_LE(chunk.size(), kChunk);
    EXPECT_TRUE(std::any_of(flat.grains.begin(), flat.grains.end(),
                            [&](const Range& grain) { return grain.begin <= chunk.begin && chunk.end <= grain.end; }));
  }
}

TEST(Shards, TileTheFlatOrderInWholeGrainsEvenly) {
  const FlatLayout flat = flatten_parameters(graph());
  int64_t largest = 0;
  for (const Range& grain : flat.grains) largest = std::max(largest, grain.size());
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const Shards shards(flat, ranks);
    std::vector<Range> all;
    for (int r = 0; r < ranks; ++r) {
      const auto& owned = shards.owned(r);
      all.insert(all.end(), owned.begin(), owned.end());
      EXPECT_NEAR(static_cast<double>(shards.numel(r)), static_cast<double>(flat.numel) / ranks,
                  static_cast<double>(largest))
          << ranks;
    }
    std::sort(all.begin(), all.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    int64_t at = 0;
    for (const Range& range : all) {
      EXPECT_EQ(range.begin, at);
      at = range.end;
      EXPECT_TRUE(std::any_of(flat.grains.begin(), flat.grains.end(),
                              [&](const Range& grain) { return grain.begin == range.begin; }));
    }
    EXPECT_EQ(at, flat.numel);
  }
}

TEST(Shards, RowsAreThoseOfTheParametersInside) {
  const Graph g = graph();
  const FlatLayout flat = flatten_parameters(g);
  std::vector<int64_t> rows(g.parameters().size());
  const Shards shards(flat, 3);
  for (int r = 0; r < 3; ++r)
    for (const ParameterRows& part : rows_in(g, flat, shards.owned(r))) rows[part.parameter] += part.end - part.begin;
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], g.parameters()[i].shape[0]);
}

TEST(Flat, GroupsAndCutsCoverUnitsInOrder) {
  const FlatLayout flat = flatten_parameters(graph());
  using Ranges = std::vector<Range>;
  EXPECT_EQ(unit_groups(flat, bucket_size(flat, 1 << 30), /*backward=*/false), (Ranges{{0, 3}}));
  EXPECT_EQ(unit_groups(flat, bucket_size(flat, 1), /*backward=*/true), (Ranges{{2, 3}, {1, 2}, {0, 1}}));
  const int64_t last_two = flat.units[1].size() + flat.units[2].size();
  EXPECT_EQ(unit_groups(flat, bucket_size(flat, last_two), /*backward=*/true), (Ranges{{1, 3}, {0, 1}}));
  // Two units fit, but one is enough.
  EXPECT_EQ(unit_groups(flat, {.enough = 1, .most = flat.numel}, /*backward=*/false), (Ranges{{0, 1}, {1, 2}, {2, 3}}));
  // A group that is exactly large enough takes no other unit.
  const int64_t first = flat.units[0].size();
  EXPECT_EQ(unit_groups(flat, {.enough = first, .most = flat.numel}, /*backward=*/false)[0], (Range{0, 1}));
  const Range all{0, flat.numel};
  EXPECT_EQ(cut(flat, all, flat.numel), Ranges{all});
  int64_t at = 0;
  for (const Range& part : cut(flat, all, 20000)) {
    EXPECT_EQ(part.begin, at);
    EXPECT_LE(part.size(), 20000);
    at = part.end;
  }
  EXPECT_EQ(at, flat.numel);
  EXPECT_EQ(cut(flat, all, 1).size(), flat.grains.size());
}

TEST(Flat, UpdateRangesSplitVectorsFromMatrices) {
  const Graph g = graph();
  const FlatLayout flat = flatten_parameters(g);
  EXPECT_EQ(update_ranges(g, flat, optim::treatments(g, {}, 0.1)).size(), 1u);
  const auto ranges = update_ranges(g, flat, optim::treatments(g, {optim::kVectorsDoNotDecay}, 0.1));
  EXPECT_EQ(ranges.size(), 6u);
  EXPECT_EQ(ranges[0].treatment.weight_decay, 0.1);
  EXPECT_EQ(ranges[1].treatment.weight_decay, 0);
  EXPECT_EQ(ranges.front().range.begin, 0);
  EXPECT_EQ(ranges.back().range.end, flat.numel);
}

TEST(Flat, UpdateRangesSplitParametersBetweenRows) {
  const Graph g = graph();
  const FlatLayout flat = flatten_parameters(g);
  const auto ranges =
      update_ranges(g, flat, optim::treatments(g, {{.pattern = "*", .rows = 2, .lr_scale = 0.5}}, /*weight_decay=*/0));
  int64_t at = 0, slow = 0;
  for (const UpdateRange& r : ranges) {
    EXPECT_EQ(r.range.begin, at);
    at = r.range.end;
    if (r.treatment.lr_scale == 0.5f) slow += r.range.size();
  }
  EXPECT_EQ(at, flat.numel);
  int64_t two_rows = 0;
  for (const Parameter& p : g.parameters()) two_rows += 2 * p.layout.strides.front();
  EXPECT_EQ(slow, two_rows);
}

TEST(Flat, Bf16WeightsTakeHalfAndVectorsStayF32) {
  const Graph g = build_graph(net, {.batch = 2, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .compute = DType::bf16});
  const FlatLayout flat = flatten_parameters(g);
  for (size_t i = 0; i < flat.parameters.size(); ++i) {
    const auto runs = intersection(flat.runs, flat.parameters[i]);
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].dtype, g.parameters()[i].is_vector() ? DType::f32 : DType::bf16);
  }
  EXPECT_LT(flat.compute_bytes, flat.numel * 5 / 2);
}

TEST(Flat, FrozenParametersComeLastAndAreSavedByAllRanks) {
  const Graph g = build_graph(net, {.batch = 2, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .frozen = [](const auto& name) {
                                      return name.starts_with("fc1");
                                    }});
  const FlatLayout flat = flatten_parameters(g);
  for (size_t i = 0; i < flat.parameters.size(); ++i)
    EXPECT_EQ(flat.parameters[i].begin >= flat.changing, g.parameters()[i].frozen);
  EXPECT_EQ(flat.units[1].size(), 0);
  EXPECT_EQ(flat.units[2].end, flat.changing);
  for (const Range& chunk : flat.chunks) EXPECT_LE(chunk.end, flat.changing);
  std::vector<int64_t> saved(3), trained(3);
  const Shards shards(flat, 3);
  for (int r = 0; r < 3; ++r) {
    for (const Range& range : shards.owned(r, flat.frozen())) saved[static_cast<size_t>(r)] += range.size();
    for (const Range& range : shards.owned(r, {0, flat.changing})) trained[static_cast<size_t>(r)] += range.size();
  }
  EXPECT_EQ(std::reduce(saved.begin(), saved.end()), flat.frozen().size());
  EXPECT_EQ(std::reduce(trained.begin(), trained.end()), flat.changing);
  EXPECT_LT(*std::ranges::max_element(saved), flat.frozen().size() / 2);
}

TEST(Lowering, FrozenParametersHaveNoStateAndNoTraffic) {
  for (const DType compute : {DType::f32, DType::bf16})
    for (int stage = 0; stage <= 3; ++stage) {
      SCOPED_TRACE(str(stage, " ", name_of(compute)));
      const Graph g = build_graph(
          net, {.batch = 2, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .compute = compute, .frozen = [](const auto& name) {
                  return !name.starts_with("fc2");
                }});
      const LoweredProgram l = lower_training(g, kAdam, {.ranks = 2, .accumulation = 2, .zero_stage = stage});
      for (const Value& value : l.values)
        if (value.base == kNone && value.category == MemoryCategory::gradients)
          EXPECT_LE(stored_bytes(value), l.flat.changing * 4) << value.name;
      for (const HeldState& state : l.states)
        if (state.kind == StateKind::moment) EXPECT_LE(stored_bytes(l[state.value]), l.flat.changing * 4) << state.name;
      for (const Program* steps : {&l.micro, &l.last, &l.update})
        for (const Step& step : *steps)
          if (const auto* comm = std::get_if<CommOp>(&step.op))
            if (const auto* gather = std::get_if<AllGather>(comm))
              EXPECT_TRUE(intersection(gather->place, l.flat.frozen()).empty());
    }
}

TEST(Assignment, EveryMicroBatchOnce) {
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
  const ZeroOptions one_bucket{.reduce_bucket_size = 1 << 30, .allgather_bucket_size = 1 << 30};
  const auto lower = [&](int accumulation, int stage) {
    return lower_training(graph(), kAdam,
                          {.ranks = 2, .accumulation = accumulation, .zero_stage = stage, .zero = one_bucket});
  };
  LoweredProgram l = lower(4, 0);
  EXPECT_EQ(kinds(l.micro), Names{"tree_push"});
  EXPECT_EQ(kinds(l.last), (Names{"tree_push", "all_reduce"}));
  EXPECT_EQ(kinds(l.update), Names{});
  l = lower(3, 0);
  EXPECT_EQ(kinds(l.micro), Names{"reduce_scatter"});
  EXPECT_EQ(kinds(l.last), (Names{"reduce_scatter", "all_gather"}));
  l = lower(4, 1);
  EXPECT_EQ(kinds(l.micro), Names{"tree_push"});
  EXPECT_EQ(kinds(l.last), (Names{"tree_push", "reduce_scatter"}));
  EXPECT_EQ(kinds(l.update), (Names{"all_gather", "all_gather"}));  // norms, parameters
  l = lower(4, 2);
  EXPECT_EQ(kinds(l.micro), Names{"reduce_scatter"});
  EXPECT_EQ(kinds(l.last), Names{"reduce_scatter"});
  EXPECT_EQ(kinds(l.update), (Names{"all_gather", "all_gather"}));
  l = lower(1, 3);  // three units forward, two backward: the first one's weights have no gradient to make
  EXPECT_EQ(kinds(l.last),
            (Names{"all_gather", "all_gather", "all_gather", "all_gather", "all_gather", "reduce_scatter"}));
  EXPECT_EQ(kinds(l.update), Names{"all_gather"});
  l = lower_training(graph(), kAdam, {.ranks = 1, .accumulation = 1, .zero_stage = 3});
  EXPECT_EQ(kinds(l.last), Names{});
}

TEST(Lowering, ParametersAreWaitedForWhereTheyAreUsed) {
  const Graph g = graph();
  for (int stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    const LoweredProgram l = lower_training(
        g, kAdam, {.ranks = 2, .accumulation = 2, .zero_stage = stage, .zero = {.allgather_bucket_size = 1}});
    std::vector<std::vector<ct::Run>> gathers;  // by communication of the update; none: not of parameters
    for (const Step& step : l.update)
      if (const auto* comm = std::get_if<CommOp>(&step.op)) {
        const auto* gather = std::get_if<AllGather>(comm);
        gathers.push_back(gather && gather->what == AllGather::What::params ? gather->place : std::vector<ct::Run>{});
      }
    for (const Program* steps : {&l.micro, &l.last}) {
      int waited = -1, needed = -1;
      for (const Step& step : *steps) {
        waited = std::max(waited, step.after_update);
        for (ValueId id : reads(step.op))
          for (size_t i = 0; i < g.parameters().size(); ++i)
            for (size_t n = 0; n < gathers.size(); ++n)
              if (g.parameters()[i].value == id && !intersection(gathers[n], l.flat.parameters[i]).empty())
                needed = std::max(needed, static_cast<int>(n));
        EXPECT_GE(waited, needed);
      }
      EXPECT_EQ(waited, stage == 1 || stage == 2 ? static_cast<int>(gathers.size()) - 1 : -1);
      // Not earlier than where it is needed: the first layer does not wait for the last one's weights.
      if (waited >= 0) {
        EXPECT_LT(steps->front().after_update, waited);
      }
    }
  }
}

bool alive_together(const MemoryPlan::Place& a, const MemoryPlan::Place& b) {
  for (const Range& x : a.lives)
    for (const Range& y : b.lives)
      if (x.begin < y.end && y.begin < x.end) return true;
  return false;
}

TEST(Memory, ValuesAliveTogetherNeverOverlap) {
  const LoweredProgram l = lower_training(graph(), kAdam, {.accumulation = 2});
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
      if (b.offset < 0 || !alive_together(a, b)) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << i << " and " << j;
    }
  }
  EXPECT_LT(plan.arena_bytes, sum);  // something is shared
}

TEST(Memory, EveryOperandOfEveryStepHasAPlaceOrIsResident) {
  for (int stage = 0; stage <= 3; ++stage) {
    const LoweredProgram l = lower_training(graph(), kAdam, {.ranks = 2, .accumulation = 2, .zero_stage = stage});
    const MemoryPlan plan = plan_memory(l);
    for (const Program* program : {&l.micro, &l.last})
      for (const Step& step : *program) {
        Ids ids = reads(step.op);
        for (ValueId v : writes(step.op)) ids.push_back(v);
        for (ValueId v : ids) {
          const ValueId at = origin(l.values, v).value;
          const auto& place = plan.values[static_cast<size_t>(at)];
          if (l[at].space == MemorySpace::resident || l[at].space == MemorySpace::shared) continue;
          EXPECT_GE(place.offset, 0) << l[v].name;
          EXPECT_TRUE(std::any_of(place.lives.begin(), place.lives.end(), [&](const Range& life) {
            return life.begin <= step.time && step.time < life.end;
          })) << l[v].name;
        }
      }
  }
}

/// A chain of layers of equal size, each a unit.
ValueId chain(Graph& g, ValueId images, int classes) {
  ValueId h = g.linear(g.flatten(images), "in", 64);
  for (const char* name : {"a", "b", "c", "d", "e"}) h = g.linear(h, name, 64, {.activation = Activation::relu});
  return g.linear(h, "out", classes);
}

TEST(Memory, NoMoreThanTwoUnitsAreGatheredAndTwoBucketsUnderWay) {
  const Graph g = build_graph(chain, {.batch = 2, .height = 4, .width = 4, .scale = {1, 1, 1}, .shift = {0, 0, 0}});
  const Distribution d{.ranks = 4, .zero_stage = 3, .zero = {.reduce_bucket_size = 1}};
  const LoweredProgram l = lower_training(g, kAdam, d);
  const MemoryUse use = memory_use(l, plan_memory(l));
  int64_t largest = 0;
  for (const Range& unit : l.flat.units) largest = std::max<int64_t>(largest, unit.size() * 4 + 128);
  EXPECT_LE(use.gathered_weights, 2 * largest);
  EXPECT_LE(use.gradient_buckets, 2 * largest);
  EXPECT_GT(use.gathered_weights, largest);  // one is prefetched
  const LoweredProgram whole = lower_training(g, kAdam, {.ranks = 4});
  EXPECT_EQ(memory_use(whole, plan_memory(whole)).gathered_weights, 0);
}

TEST(Memory, FlattenedImageIsAViewWithoutAnOperation) {
  const auto aligned = [](Graph& g, ValueId images, int classes) { return g.linear(g.flatten(images), "fc", classes); };
  const Graph g = build_graph(aligned, {.batch = 2, .scale = {1, 1, 1}, .shift = {0, 0, 0}});
  const LoweredProgram l = lower_training(g, kAdam, {});
  for (const Step& s : l.last) EXPECT_NE(name_of(s.op), "flatten");
  const LoweredProgram padded = lower_training(graph(), kAdam, {});  // 14*14*6 is not a multiple of the row pad
  int copies = 0;
  for (const Step& s : padded.last) copies += name_of(s.op) == "flatten" || name_of(s.op) == "flatten_grad";
  EXPECT_EQ(copies, 2);
}

TEST(Text, NamesOperationsAndPlaces) {
  const LoweredProgram l = lower_training(graph(), kAdam, {.ranks = 2, .zero_stage = 3});
  const std::string text = to_text(l, plan_memory(l));
  for (const char* word : {"conv2d", "reduce_scatter", "all_gather", "adam", "arena:", "exp_avg_sq", "conv.weight"})
    EXPECT_NE(text.find(word), std::string::npos) << word;
}

}  // namespace
}  // namespace ct
