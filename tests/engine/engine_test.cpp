#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "base/random.h"
#include "comm/host/threads.h"
#include "plan/lower.h"

namespace ct {
namespace {

constexpr int64_t kBatch = 2, kSide = 8, kClasses = 5;

ValueId small_net(Graph& g, ValueId images, int classes) {
  const ValueId h = g.max_pool(g.relu(g.conv2d(images, "conv", 4, 3)), 2);
  return g.linear(g.linear(g.flatten(h), "hidden", 20, {.activation = Activation::relu}), "out", classes);
}
/// Batch norm, residuals and units of several layers; wide enough that parameters are of several grains.
ValueId residual_net(Graph& g, ValueId images, int classes) {
  g.begin_unit("stem");
  ValueId h = g.batchnorm(g.conv2d(images, "conv1", 16, 3, {.pad = 1, .bias = false}), "bn1", Activation::relu);
  for (const char* name : {"block1", "block2", "block3"}) {
    g.begin_unit(name);
    const std::string prefix = std::string(name) + ".";
    const ValueId skip = h;
    h = g.batchnorm(g.conv2d(h, prefix + "conv1", 48, 3, {.pad = 1, .bias = false}), prefix + "bn1", Activation::relu);
    h = g.conv2d(h, prefix + "conv2", 16, 3, {.pad = 1, .bias = false});
    h = g.batchnorm(h, prefix + "bn2", Activation::relu, skip);
  }
  g.begin_unit("head");
  return g.linear(g.average_pool(h), "fc", classes);
}
/// The same bytes in another shape, which needs no padding.
ValueId as(Graph& g, ValueId x, const Shape& shape) {
  const ValueId y = g.add_value({.name = g[x].name + " as it is", .shape = shape, .dtype = g.compute()});
  g.add_op(Flatten{x, y});
  return y;
}
/// Attention, and dropout in units of its own and of others.
ValueId dropout_net(Graph& g, ValueId images, int classes) {
  g.begin_unit("stem");
  ValueId h = g.dropout(g.relu(g.conv2d(images, "stem", 16, 3, {.pad = 1})), 0.2);
  g.begin_unit("tokens");
  h = g.dropout(g.relu(g.conv2d(h, "tokens", 96, 4, {.stride = 4})), 0.1);
  g.begin_unit("attention");
  const AttentionOptions options{.temperature_name = "attention.temperature", .mask_diagonal = true};
  h = g.attention(as(g, h, {kBatch, 4, 96}), 2, options);
  h = g.linear(g.dropout(h, 0.5), "attention.out", 40);
  g.begin_unit("head");
  return g.linear(g.dropout(g.sequence_pool(h, g.linear(h, "score", 1)), 0.5), "fc", classes);
}
/// A transformer's blocks, without attention: sums go on from unit to unit, and are normalised within.
ValueId token_net(Graph& g, ValueId images, int classes) {
  g.begin_unit("embed");
  ValueId h = g.linear(g.flatten(images), "embed", 40, {.bias = false});
  for (const char* name : {"block1", "block2", "block3"}) {
    g.begin_unit(name);
    const std::string prefix = std::string(name) + ".";
    const ValueId mixed = g.linear(g.layer_norm(h, prefix + "norm1"), prefix + "mix", 40);
    const auto [sum, y] = g.add_layer_norm(mixed, h, prefix + "norm2");
    const ValueId wide = g.linear(y, prefix + "up", 80, {.activation = Activation::gelu});
    h = g.add(sum, g.linear(g.activate(wide, Activation::gelu), prefix + "down", 40));
  }
  g.begin_unit("head");
  return g.linear(g.layer_norm(h, "norm"), "fc", classes);
}
ValueId tiny_net(Graph& g, ValueId images, int classes) { return g.linear(g.flatten(images), "out", classes); }

Graph graph_of(const Builder& model, DType compute = DType::f32, Mode mode = Mode::train) {
  const float scale = 1 / 127.5f;
  return build_graph(model, {.batch = kBatch,
                             .height = kSide,
                             .width = kSide,
                             .classes = kClasses,
                             .scale = {scale, scale, scale},
                             .shift = {-1, -1, -1},
                             .mode = mode,
                             .compute = compute});
}

const UpdateRule kAdam{.optimizer = optim::AdamW{.betas = {0.8, 0.999}, .weight_decay = 0.01},
                       .groups = {optim::kVectorsDoNotDecay},
                       .clip = 1};
/// With an average of the weights that begins behind the second step.
const UpdateRule kAveraged = [] {
  UpdateRule rule = kAdam;
  rule.ema = {.decay = 0.9, .start = 2};
  return rule;
}();
const UpdateRule kSgd{.optimizer = optim::Sgd{.momentum = 0.9}};

Schedule schedule(const UpdateRule& rule) {
  return [optimizer = rule.optimizer](int64_t step) {
    return std::visit(
        [step](const auto& o) {
          Rates rates = o.rates();
          rates.lr = 0.01 / static_cast<double>(step + 1);
          return optim::row_of(o, rates, step);
        },
        optimizer);
  };
}

/// Weights that depend on their place alone; pads stay zero because only parameters' elements are drawn.
void set_weights(const Graph& graph, Engine& engine) {
  const FlatLayout& flat = engine.lowered().flat;
  std::vector<float> all(static_cast<size_t>(flat.numel));
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& p = graph.parameters()[i];
    std::vector<float> values(static_cast<size_t>(p.layout.numel()));
    Random random(1, Purpose::init, i);
    for (float& v : values) {
      const double uniform = 2 * random.uniform() - 1;
      v = static_cast<float>(p.init.kind == Init::constant ? p.init.spread + 0.1 * uniform : uniform * p.init.spread);
      if (p.name.ends_with("running_var")) v = std::abs(v);
    }
    const Range& r = flat.parameters[i];
    p.layout.from_torch(values, std::span(all).subspan(static_cast<size_t>(r.begin), static_cast<size_t>(r.size())));
  }
  const StateBuffer weights = engine.state().front();
  for (const Range& r : weights.ranges()) std::copy(all.begin() + r.begin, all.begin() + r.end, weights(r).begin());
  engine.state_written();
  engine.begin_average();
}

/// Of those that this rank holds.
float& first_weight(Engine& engine) {
  const StateBuffer weights = engine.state().front();
  return weights(weights.ranges().front()).front();
}

std::unique_ptr<Backend> backend_of_this_thread() {
  auto backend = make_cpu_backend();
  backend->enter_thread();
  return backend;
}

/// The images and labels of one micro-batch of the run.
void feed(const Inputs& in, int64_t micro_batch) {
  Random random(2, Purpose::augment, static_cast<uint64_t>(micro_batch));
  for (int64_t i = 0; i < kBatch * 3 * kSide * kSide; ++i) in.images[i] = static_cast<uint8_t>(random.below(256));
  for (int64_t i = 0; i < kBatch; ++i) {
    const auto dy = static_cast<int32_t>(random.below(3)) - 1;
    in.draws[i] = {.dy = dy, .dx = 1, .flip = static_cast<int32_t>(random.below(2))};
    in.labels[i] = static_cast<int32_t>(random.below(kClasses));
  }
}

/// Runs the micro-steps of step `step` on this rank.
void micro_steps(Engine& engine, Communicator& comm, int64_t step) {
  const Distribution& d = engine.lowered().distribution;
  for (int j = 0; j < d.accumulation; ++j) {
    const int k = d.micro_batch(comm.rank(), j);
    feed(engine.inputs(), step * d.micro_batches() + k);
    *engine.inputs().dropout_key = {.seed = 7, .step = step, .micro_batch = k};
    engine.micro_step();
  }
}

struct Outcome {
  std::vector<std::vector<float>> state;  // weights and moments
  std::vector<double> losses;
  StepScalars scalars;
};

void expect_same_bits(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.state.size(), b.state.size());
  for (size_t i = 0; i < a.state.size(); ++i) {
    ASSERT_EQ(a.state[i].size(), b.state[i].size());
    EXPECT_EQ(std::memcmp(a.state[i].data(), b.state[i].data(), a.state[i].size() * sizeof(float)), 0)
        << "buffer " << i;
  }
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.scalars.norm, b.scalars.norm);
}

/// Everything that ranks own, put together on every rank.
Outcome outcome_of(Engine& engine, Communicator& comm, std::vector<double> losses) {
  Outcome outcome{.losses = std::move(losses), .scalars = engine.scalars()};
  const size_t numel = static_cast<size_t>(engine.lowered().flat.numel), ranks = static_cast<size_t>(comm.size());
  for (const StateBuffer& b : engine.state()) {
    std::vector<float> mine(numel), all(numel * ranks);
    for (const Range& r : engine.owned())
      for (const Run& held : intersection(b.held, r)) {  // not all parameters have all states
        const std::span<float> part = b(held.range);
        std::copy(part.begin(), part.end(), mine.begin() + held.range.begin);
      }
    comm.gather_all(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
    for (int rank = 0; rank < comm.size(); ++rank)
      for (const Range& r : engine.lowered().shards.owned(rank))
        std::copy_n(all.begin() + static_cast<int64_t>(static_cast<size_t>(rank) * numel) + r.begin, r.size(),
                    mine.begin() + r.begin);
    outcome.state.push_back(std::move(mine));
  }
  return outcome;
}

struct Setting {
  UpdateRule rule = kAdam;
  int ranks = 1, micro_batches = 8, stage = 0;
  Builder model = small_net;
  DType compute = DType::f32;
  ZeroOptions zero = {};
  CommQueueOptions queue = {};
  bool reproducible = true;
  Recompute recompute = Recompute::none;
};

Distribution distribution_of(const Setting& s, int rank) {
  return {.ranks = s.ranks,
          .rank = rank,
          .accumulation = s.micro_batches / s.ranks,
          .zero_stage = s.stage,
          .reproducible = s.reproducible,
          .zero = s.zero};
}

/// Trains on threads as ranks; every rank must end with the same state.
Outcome train(const Setting& setting, int64_t steps) {
  std::vector<Outcome> outcomes(static_cast<size_t>(setting.ranks));
  run_ranks(setting.ranks, [&](Communicator& comm) {
    const auto backend = backend_of_this_thread();
    const Graph graph = graph_of(setting.model, setting.compute);
    Engine engine(*backend, comm,
                  lower_training(graph, setting.rule, distribution_of(setting, comm.rank()), setting.recompute),
                  schedule(setting.rule), BindOptions{.queue = setting.queue});
    set_weights(graph, engine);
    std::vector<double> losses;
    for (int64_t step = 0; step < steps; ++step) {
      micro_steps(engine, comm, step);
      engine.update();
      if (step == 1)  // drained now and then: the order must not depend on when
        losses = engine.drain_losses();
    }
    const std::vector<double> rest = engine.drain_losses();
    losses.insert(losses.end(), rest.begin(), rest.end());
    outcomes[static_cast<size_t>(comm.rank())] = outcome_of(engine, comm, losses);
    return 0;
  });
  for (const Outcome& o : outcomes) expect_same_bits(o, outcomes[0]);
  return outcomes[0];
}

bool can_compute(DType dtype) { return make_cpu_backend()->problem_with(dtype).empty(); }

TEST(Engine, AnyNumberOfRanksEndsInTheSameBits) {
  for (const int micro_batches : {6, 8, 12}) {
    const Outcome alone = train({.micro_batches = micro_batches}, 5);
    EXPECT_EQ(alone.losses.size(), static_cast<size_t>(5 * micro_batches));
    EXPECT_EQ(alone.scalars.applied, 5);
    EXPECT_TRUE(std::isfinite(alone.losses.back()));
    for (const int ranks : {2, 3, 4, 6}) {
      if (micro_batches % ranks != 0) continue;
      SCOPED_TRACE(testing::Message() << micro_batches << " micro-batches on " << ranks << " ranks");
      expect_same_bits(train({.ranks = ranks, .micro_batches = micro_batches}, 5), alone);
    }
  }
}

/// Images that are picked from a set by their numbers, with edits and without.
TEST(Engine, ImagesOfASetEndInTheBitsOfThoseThatAreBrought) {
  constexpr int64_t kSet = 12, kBytes = 3 * kSide * kSide;
  const float scale = 1 / 127.5f;
  for (const int edits : {0, 2}) {
    std::vector<Outcome> outcomes;
    for (const int64_t resident : {int64_t{0}, kSet})
      run_ranks(1, [&](Communicator& comm) {
        const auto backend = backend_of_this_thread();
        const Graph graph = build_graph(small_net, {.batch = kBatch,
                                                    .height = kSide,
                                                    .width = kSide,
                                                    .classes = kClasses,
                                                    .scale = {scale, scale, scale},
                                                    .shift = {-1, -1, -1},
                                                    .resident_images = resident,
                                                    .edits = edits});
        Engine engine(*backend, comm, lower_training(graph, kAdam, distribution_of({.micro_batches = 2}, 0)),
                      schedule(kAdam));
        EXPECT_EQ(engine.resident_images(), resident);
        set_weights(graph, engine);
        std::vector<uint8_t> set(kSet * kBytes);
        Random random(9, Purpose::augment);
        for (uint8_t& pixel : set) pixel = static_cast<uint8_t>(random.below(256));
        engine.write_images([&](int64_t first, std::span<uint8_t> to) {
          std::copy_n(set.begin() + first * kBytes, to.size(), to.begin());
        });
        for (int64_t micro_batch = 0; micro_batch < 6; ++micro_batch) {
          const Inputs in = engine.inputs();
          EXPECT_EQ(in.images.empty(), resident > 0);
          for (int64_t i = 0; i < kBatch; ++i) {
            const int64_t image = (5 * micro_batch + 7 * i) % kSet;
            if (resident > 0)
              in.index[i] = static_cast<int32_t>(image);
            else
              std::copy_n(set.begin() + image * kBytes, kBytes, in.images.begin() + i * kBytes);
            in.draws[i] = {.dy = 1, .flip = static_cast<int32_t>(i % 2)};
            in.labels[i] = static_cast<int32_t>(image % kClasses);
            for (int e = 0; e < edits; ++e)
              in.edits[i * edits + e] = {EditKind::blend, {0, 0, 4, 4, static_cast<int32_t>(e), kEditOne / 3}};
          }
          engine.micro_step();
          if (micro_batch % 2 == 1) engine.update();
        }
        outcomes.push_back(outcome_of(engine, comm, engine.drain_losses()));
        return 0;
      });
    expect_same_bits(outcomes[1], outcomes[0]);
  }
}

/// Mirrored images that an edit mirrors again, and labels of which nothing is taken.
TEST(Engine, EditsAndSecondLabelsReachTheirOperations) {
  std::vector<Outcome> outcomes;
  for (const bool turned : {false, true})
    run_ranks(1, [&](Communicator& comm) {
      const auto backend = backend_of_this_thread();
      const float scale = 1 / 127.5f;
      const Graph graph = build_graph(small_net, {.batch = kBatch,
                                                  .height = kSide,
                                                  .width = kSide,
                                                  .classes = kClasses,
                                                  .scale = {scale, scale, scale},
                                                  .shift = {-1, -1, -1},
                                                  .edits = turned ? 2 : 0,
                                                  .mixes_labels = turned});
      Engine engine(*backend, comm, lower_training(graph, kAdam, distribution_of({.micro_batches = 2}, 0)),
                    schedule(kAdam));
      set_weights(graph, engine);
      for (int64_t micro_batch = 0; micro_batch < 6; ++micro_batch) {
        const Inputs in = engine.inputs();
        feed(in, micro_batch);
        for (int64_t i = 0; turned && i < kBatch; ++i) {
          for (int64_t row = 0; row < 3 * kSide; ++row) {
            uint8_t* const first = in.images.data() + (i * 3 * kSide + row) * kSide;
            std::reverse(first, first + kSide);
          }
          in.edits[2 * i] = {};
          in.edits[2 * i + 1] = {EditKind::move, {0, 0, 1}};
          in.second_labels[i] = std::exchange(in.labels[i], (in.labels[i] + 1) % static_cast<int32_t>(kClasses));
          in.second_shares[i] = 1;
        }
        engine.micro_step();
        if (micro_batch % 2 == 1) engine.update();
      }
      outcomes.push_back(outcome_of(engine, comm, engine.drain_losses()));
      return 0;
    });
  expect_same_bits(outcomes[1], outcomes[0]);
}

/// Whether a stage is tried on this many ranks: on any, and under sanitizers, where each takes ten times as long, on
/// one number of ranks a stage.
bool is_tried([[maybe_unused]] int stage, [[maybe_unused]] int ranks) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return ranks == 2 + stage % 3;
#else
  return true;
#endif
}

class EveryStage : public testing::TestWithParam<std::tuple<DType, const char*>> {
 protected:
  DType compute() const { return std::get<0>(GetParam()); }
  Builder model() const {
    const std::string name = std::get<1>(GetParam());
    return name == "residual" ? Builder(residual_net) : name == "dropout" ? Builder(dropout_net) : Builder(small_net);
  }
};

/// Every optimizer of the table; with keys of its own where its defaults leave something out.
std::vector<UpdateRule> every_optimizer() {
  std::vector<UpdateRule> rules = {
      {.optimizer = optim::Lion{.weight_decay = 0.1}},
      {.optimizer = optim::Adagrad{.lr_decay = 0.1}},
      {.optimizer = optim::Lamb{.weight_decay = 0.01}, .groups = {optim::kVectorsDoNotDecay}, .clip = 1},
      {.optimizer = optim::Lars{.momentum = 0.9, .nesterov = true, .trust_coeff = 0.1, .weight_decay = 0.01},
       .clip = 1},
      {.optimizer = optim::Muon{.adamw_lr = 5e-4}, .groups = {optim::kVectorsDoNotDecay}, .clip = 1}};
  for (const optim::Optimizer& optimizer : optim::all_of<optim::Optimizer>())
    if (std::ranges::none_of(rules,
                             [&](const UpdateRule& rule) { return rule.optimizer.index() == optimizer.index(); }))
      rules.push_back({.optimizer = optimizer, .clip = 1});
  return rules;
}

/// Those that need to know whole tensors, too; in buckets of the usual size and in small ones.
TEST_P(EveryStage, EveryOptimizerEndsInTheSameBits) {
  if (!can_compute(compute())) GTEST_SKIP() << "no " << name_of(compute()) << " here";
  for (const UpdateRule& rule : every_optimizer()) {
    const Outcome alone = train({.rule = rule, .micro_batches = 12, .model = model(), .compute = compute()}, 3);
    EXPECT_TRUE(std::isfinite(alone.scalars.norm));
    for (const float x : alone.state[0]) ASSERT_TRUE(std::isfinite(x));
    for (int stage = 0; stage <= 3; ++stage)
      for (const int ranks : {2, 3, 4}) {
        if (!is_tried(stage, ranks)) continue;
        SCOPED_TRACE(testing::Message() << optim::type_of(rule.optimizer) << ", " << ranks << " ranks, stage "
                                        << stage);
        Setting setting{
            .rule = rule, .ranks = ranks, .micro_batches = 12, .stage = stage, .model = model(), .compute = compute()};
        if (ranks == 3) setting.zero.allgather_bucket_size = 500;
        if (ranks == 4) setting.zero.offload_optimizer = true;
        expect_same_bits(train(setting, 3), alone);
      }
  }
}

/// A step without a finite gradient changes nothing, whatever is computed of whole tensors before it is known.
TEST(Engine, EveryOptimizerSkipsAStepThatIsNotFinite) {
  for (const UpdateRule& rule : every_optimizer())
    for (const int ranks : {1, 2}) {
      std::vector<Outcome> before(2), after(2);
      run_ranks(ranks, [&](Communicator& comm) {
        const auto backend = backend_of_this_thread();
        const Graph graph = graph_of(small_net);
        const Setting setting{.rule = rule, .ranks = ranks, .micro_batches = 2, .stage = 2};
        Engine engine(*backend, comm, lower_training(graph, rule, distribution_of(setting, comm.rank())),
                      schedule(rule));
        set_weights(graph, engine);
        micro_steps(engine, comm, 0);
        engine.update();
        before[static_cast<size_t>(comm.rank())] = outcome_of(engine, comm, {});
        first_weight(engine) = std::numeric_limits<float>::quiet_NaN();
        engine.state_written();
        micro_steps(engine, comm, 1);
        engine.update();
        EXPECT_EQ(engine.scalars().skipped, 1) << optim::type_of(rule.optimizer);
        after[static_cast<size_t>(comm.rank())] = outcome_of(engine, comm, {});
        return 0;
      });
      for (size_t state = 0; state < before[0].state.size(); ++state)
        for (size_t i = 0; i < before[0].state[state].size(); ++i) {
          if (std::isnan(after[0].state[state][i])) continue;  // what was made so by hand
          ASSERT_EQ(after[0].state[state][i], before[0].state[state][i]) << optim::type_of(rule.optimizer) << i;
        }
    }
}

TEST_P(EveryStage, EndsInTheSameBits) {
  if (!can_compute(compute())) GTEST_SKIP() << "no " << name_of(compute()) << " here";
  for (const int micro_batches : {4, 12}) {
    const Outcome alone = train({.micro_batches = micro_batches, .model = model(), .compute = compute()}, 4);
    EXPECT_TRUE(std::isfinite(alone.scalars.norm));
    for (int stage = 0; stage <= 3; ++stage)
      for (const int ranks : {1, 2, 3, 4}) {
        if (micro_batches % ranks != 0 || !is_tried(stage, ranks)) continue;
        SCOPED_TRACE(testing::Message() << micro_batches << " micro-batches, " << ranks << " ranks, stage " << stage);
        const Setting setting{
            .ranks = ranks, .micro_batches = micro_batches, .stage = stage, .model = model(), .compute = compute()};
        expect_same_bits(train(setting, 4), alone);
      }
  }
}

TEST_P(EveryStage, NeitherBucketsNorOverlapChangeABit) {
  if (!can_compute(compute())) GTEST_SKIP() << "no " << name_of(compute()) << " here";
  const Outcome alone = train({.micro_batches = 6, .model = model(), .compute = compute()}, 3);
  for (int stage = 0; stage <= 3; ++stage)
    for (const int64_t bucket : {int64_t{1}, int64_t{5000}, int64_t{500'000'000}})
      for (const bool beside : {false, true}) {
        SCOPED_TRACE(testing::Message() << "stage " << stage << ", buckets of " << bucket << ", overlap " << beside);
        const Setting setting{.ranks = 3,
                              .micro_batches = 6,
                              .stage = stage,
                              .model = model(),
                              .compute = compute(),
                              .zero = {.reduce_bucket_size = bucket,
                                       .allgather_bucket_size = bucket,
                                       .persistence_threshold = bucket == 5000 ? 20 : 0},
                              .queue = {.overlap_comm = beside}};
        expect_same_bits(train(setting, 3), alone);
      }
}

TEST_P(EveryStage, BlocksComputedAgainChangeNoBit) {
  if (!can_compute(compute())) GTEST_SKIP() << "no " << name_of(compute()) << " here";
  const Outcome alone = train({.micro_batches = 6, .model = model(), .compute = compute()}, 3);
  for (int stage = 0; stage <= 3; ++stage)
    for (const int ranks : {1, 3}) {
      if (ranks == 1 && stage > 0) continue;
      SCOPED_TRACE(testing::Message() << ranks << " ranks, stage " << stage);
      const Setting setting{.ranks = ranks,
                            .micro_batches = 6,
                            .stage = stage,
                            .model = model(),
                            .compute = compute(),
                            .queue = {.overlap_comm = stage % 2 == 1},
                            .recompute = Recompute::blocks};
      expect_same_bits(train(setting, 3), alone);
    }
}

TEST_P(EveryStage, AveragesTheWeightsToTheSameBits) {
  if (!can_compute(compute())) GTEST_SKIP() << "no " << name_of(compute()) << " here";
  const Setting setting{.rule = kAveraged, .micro_batches = 12, .model = model(), .compute = compute()};
  const Outcome alone = train(setting, 5);
  const Outcome without = train({.micro_batches = 12, .model = model(), .compute = compute()}, 5);
  ASSERT_EQ(alone.state.size(), 4u);
  EXPECT_EQ(alone.state[0], without.state[0]) << "the weights hear of their average";
  EXPECT_NE(alone.state[1], alone.state[0]);
  for (int stage = 0; stage <= 3; ++stage)
    for (const int ranks : {2, 3, 4}) {
      if (!is_tried(stage, ranks)) continue;
      SCOPED_TRACE(testing::Message() << ranks << " ranks, stage " << stage);
      Setting shared = setting;
      shared.ranks = ranks;
      shared.stage = stage;
      shared.zero.persistence_threshold = ranks == 3 ? 20 : 0;
      expect_same_bits(train(shared, 5), alone);
    }
}

INSTANTIATE_TEST_SUITE_P(Engine, EveryStage,
                         testing::Combine(testing::Values(DType::f32, DType::bf16),
                                          testing::Values("small", "residual", "dropout")),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_" + std::get<1>(info.param);
                         });

TEST(Engine, LayersOfTransformersEndInTheSameBits) {
  const Outcome alone = train({.micro_batches = 6, .model = token_net}, 4);
  EXPECT_TRUE(std::isfinite(alone.scalars.norm));
  EXPECT_NE(alone.losses.front(), alone.losses.back());
  for (int stage = 0; stage <= 3; ++stage)
    for (const Recompute recompute : {Recompute::none, Recompute::blocks})
      for (const int ranks : {1, 3}) {
        if (ranks == 1 && stage > 0) continue;
        SCOPED_TRACE(testing::Message() << ranks << " ranks, stage " << stage);
        expect_same_bits(
            train({.ranks = ranks, .micro_batches = 6, .stage = stage, .model = token_net, .recompute = recompute}, 4),
            alone);
      }
}

TEST(Engine, SumsInAnyOrderAreCloseToTheCanonicalOnes) {
  const Outcome canonical = train({.micro_batches = 12}, 3);
  for (int stage = 0; stage <= 3; ++stage)
    for (const int ranks : {1, 3}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, stage " << stage);
      const Outcome any = train({.ranks = ranks, .micro_batches = 12, .stage = stage, .reproducible = false}, 3);
      ASSERT_EQ(any.losses.size(), canonical.losses.size());
      // The order of micro-batches on ranks is another one, their losses are the same.
      for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(any.losses[i], canonical.losses[i], 1e-4);
      EXPECT_NEAR(any.scalars.norm, canonical.scalars.norm, 1e-3 * canonical.scalars.norm);
    }
}

UpdateRule divided_before(const Predivision& predivision) {
  UpdateRule rule = kAdam;
  rule.predivision = predivision;
  return rule;
}

/// Dividing by a power of two changes no bit.
TEST(Engine, GradientsMayBeDividedBeforeTheyAreAdded) {
  const Outcome after = train({.micro_batches = 8}, 4);
  for (const Predivision& predivision : {Predivision{.whole = true}, Predivision{.factor = 4}})
    expect_same_bits(train({.rule = divided_before(predivision), .ranks = 2, .micro_batches = 8}, 4), after);
  // Others round elsewhere, but alike on any ranks and stage.
  const UpdateRule whole = divided_before({.whole = true}), part = divided_before({.factor = 3});
  const Outcome sixth = train({.micro_batches = 6}, 4);
  for (const UpdateRule& rule : {whole, part}) {
    const Outcome alone = train({.rule = rule, .micro_batches = 6}, 4);
    EXPECT_NEAR(alone.scalars.norm, sixth.scalars.norm, 1e-4 * sixth.scalars.norm);
    for (int stage = 0; stage <= 3; ++stage)
      expect_same_bits(train({.rule = rule, .ranks = 3, .micro_batches = 6, .stage = stage}, 4), alone);
  }
}

TEST(Engine, MomentumToo) {
  const Outcome alone = train({.rule = kSgd, .micro_batches = 6}, 4);
  for (int stage = 0; stage <= 3; ++stage)
    expect_same_bits(train({.rule = kSgd, .ranks = 3, .micro_batches = 6, .stage = stage}, 4), alone);
}

TEST(Engine, LossesAreThoseOfTheirMicroBatchesInOrder) {
  // With a single micro-batch a step and a rate of nothing the same losses come one by one.
  const UpdateRule still{.optimizer = optim::Sgd{}};
  const auto losses_of = [&](int accumulation, int64_t steps) {
    const auto backend = backend_of_this_thread();
    const auto comm = make_solo();
    const Graph graph = graph_of(small_net);
    Engine engine(*backend, *comm, lower_training(graph, still, {.accumulation = accumulation}),
                  [](int64_t) { return ScheduleRow{.lr = 0}; });
    set_weights(graph, engine);
    for (int64_t step = 0; step < steps; ++step) {
      micro_steps(engine, *comm, step);
      engine.update();
    }
    return engine.drain_losses();
  };
  EXPECT_EQ(losses_of(6, 2), losses_of(1, 12));
}

TEST(Engine, ABadMicroBatchOnOneRankSkipsTheStepOnAll) {
  UpdateRule rule = kAveraged;
  rule.ema->start = 0;  // what would move is an average
  for (const auto& [ranks, accumulation, stage] :
       {std::tuple{1, 1, 0}, {1, 3, 0}, {2, 2, 0}, {3, 2, 1}, {2, 3, 0}, {2, 2, 2}, {3, 2, 3}})
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks x " << accumulation << ", stage " << stage << ", " << bad);
      std::vector<Outcome> before(static_cast<size_t>(ranks)), after(before), later(before), never(before);
      run_ranks(ranks, [&, ranks = ranks, accumulation = accumulation, stage = stage](Communicator& comm) {
        const auto backend = backend_of_this_thread();
        const Graph graph = graph_of(small_net);
        const LoweredProgram lowered = lower_training(
            graph, rule, {.ranks = ranks, .rank = comm.rank(), .accumulation = accumulation, .zero_stage = stage});
        Engine engine(*backend, comm, lowered, schedule(rule)), other(*backend, comm, lowered, schedule(rule));
        const auto me = static_cast<size_t>(comm.rank());
        const auto step = [&](Engine& e, int64_t number) {
          micro_steps(e, comm, number);
          e.update();
        };
        set_weights(graph, engine);
        step(engine, 0);
        before[me] = outcome_of(engine, comm, {});

        // One weight of the last rank breaks for the length of one micro-step.
        for (int j = 0; j < accumulation; ++j) {
          feed(engine.inputs(), 100 + j);
          // With stage 3 a rank may own nothing, but not the first.
          const bool breaks = comm.rank() == (stage == 3 ? 0 : ranks - 1) && j == accumulation / 2;
          const float kept = breaks ? std::exchange(first_weight(engine), bad) : 0;
          engine.micro_step();
          if (breaks) first_weight(engine) = kept;
        }
        engine.update();
        after[me] = outcome_of(engine, comm, {});
        step(engine, 1);
        later[me] = outcome_of(engine, comm, {});

        set_weights(graph, other);
        step(other, 0);
        step(other, 1);
        never[me] = outcome_of(other, comm, {});
        return 0;
      });
      for (size_t r = 0; r < before.size(); ++r) {
        EXPECT_EQ(after[r].scalars.skip, 1);
        EXPECT_EQ(after[r].scalars.skipped, 1);
        EXPECT_EQ(after[r].scalars.bad_streak, 1);
        EXPECT_EQ(after[r].scalars.applied, 1);
        EXPECT_EQ(after[r].state, before[r].state);
        EXPECT_EQ(later[r].scalars.bad_streak, 0);
        EXPECT_EQ(later[r].scalars.skipped, 1);
        expect_same_bits(later[r], never[r]);
      }
    }
}

TEST(Engine, TheAverageFollowsItsFormula) {
  for (const int64_t start : {0, 3}) {
    UpdateRule rule = kAdam;
    rule.ema = {.decay = 0.8, .start = start};
    const auto backend = backend_of_this_thread();
    const auto comm = make_solo();
    const Graph graph = graph_of(residual_net);  // whose running statistics are averaged too
    Engine engine(*backend, *comm, lower_training(graph, rule, {}), schedule(rule));
    set_weights(graph, engine);
    Outcome now = outcome_of(engine, *comm, {});
    EXPECT_EQ(now.state[1], now.state[0]);
    std::vector<double> expected(now.state[0].begin(), now.state[0].end());
    for (int64_t step = 0; step < 6; ++step) {
      micro_steps(engine, *comm, step);
      engine.update();
      now = outcome_of(engine, *comm, {});
      double moved = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        const double p = now.state[0][i];
        expected[i] = step < start ? p : 0.8 * expected[i] + 0.2 * p;
        ASSERT_NEAR(now.state[1][i], expected[i], 1e-6 * std::max(1.0, std::abs(p))) << i << " in step " << step;
        moved = std::max(moved, std::abs(p - expected[i]));
      }
      EXPECT_EQ(now.state[1] == now.state[0], step < start);
      EXPECT_EQ(moved > 1e-4, step >= start);
    }
  }
}

TEST(Engine, ScheduleGoesOnBeyondItsWindowAndSkippedStepsUseNoRow) {
  const auto backend = backend_of_this_thread();
  const auto comm = make_solo();
  const Graph graph = graph_of(tiny_net);
  Engine engine(*backend, *comm, lower_training(graph, kSgd, {}),
                [](int64_t step) { return ScheduleRow{.lr = 1e-9 * static_cast<double>(step + 1)}; });
  set_weights(graph, engine);
  feed(engine.inputs(), 0);
  int64_t applied = 0, skipped = 0;
  for (int64_t step = 0; step < 2 * kScheduleWindow + 100; ++step) {
    float& weight = first_weight(engine);
    const float kept = weight;
    const bool bad = step % 37 == 5;
    if (bad) weight = std::numeric_limits<float>::quiet_NaN();
    engine.micro_step();
    weight = kept;
    engine.update();
    (bad ? skipped : applied) += 1;
    ASSERT_EQ(engine.scalars().applied, applied);
    ASSERT_EQ(engine.scalars().skipped, skipped);
    // A skipped step shows the rate of the next one that is applied.
    ASSERT_EQ(engine.scalars().lr, 1e-9 * static_cast<double>(bad ? applied + 1 : applied)) << "step " << step;
  }
}

TEST(Engine, ResumesItsScheduleAnywhere) {
  const auto backend = backend_of_this_thread();
  const auto comm = make_solo();
  const Graph graph = graph_of(tiny_net);
  Engine engine(*backend, *comm, lower_training(graph, kSgd, {}),
                [](int64_t step) { return ScheduleRow{.lr = static_cast<double>(step + 1)}; });
  feed(engine.inputs(), 0);
  for (const int64_t applied : {int64_t{0}, int64_t{7}, kScheduleWindow - 1, 5 * kScheduleWindow + 3}) {
    engine.restore({.scalars = {.applied = applied, .skipped = 4, .bad_streak = 2}});
    engine.micro_step();
    engine.update();
    EXPECT_EQ(engine.scalars().lr, static_cast<double>(applied + 1));
    EXPECT_EQ(engine.scalars().skipped, 4);
  }
}

/// Masks follow from which micro-batch it is, not from what was computed before it.
TEST(Engine, DropoutIsTheSameAfterAResumeAndAfterASkippedStep) {
  const auto backend = backend_of_this_thread();
  const auto comm = make_solo();
  const Graph graph = graph_of(dropout_net);
  const LoweredProgram lowered = lower_training(graph, kAdam, {.accumulation = 2});
  Engine engine(*backend, *comm, lowered, schedule(kAdam)), other(*backend, *comm, lowered, schedule(kAdam));
  const auto step = [&](Engine& e, int64_t number) {
    micro_steps(e, *comm, number);
    e.update();
  };
  set_weights(graph, engine);
  step(engine, 0);

  const std::vector<StateBuffer> from = engine.state(), to = other.state();
  for (size_t i = 0; i < from.size(); ++i)
    for (const Range& r : from[i].ranges()) std::copy(from[i](r).begin(), from[i](r).end(), to[i](r).begin());
  other.state_written();
  other.restore(engine.latest());

  float& weight = first_weight(other);
  const float kept = std::exchange(weight, std::numeric_limits<float>::quiet_NaN());
  micro_steps(other, *comm, 1);
  first_weight(other) = kept;
  other.update();
  EXPECT_EQ(other.scalars().skipped, 1);
  engine.drain_losses();
  other.drain_losses();

  step(engine, 2);
  step(other, 2);
  expect_same_bits(outcome_of(other, *comm, other.drain_losses()), outcome_of(engine, *comm, engine.drain_losses()));
}

TEST(Engine, DropoutIsDrawnForEachMicroBatchOfEachStep) {
  const auto backend = backend_of_this_thread();
  const auto comm = make_solo();
  const Graph graph = graph_of(dropout_net);
  Engine engine(*backend, *comm, lower_training(graph, kAdam, {}), schedule(kAdam));
  set_weights(graph, engine);
  const auto loss_of = [&](const DropoutKey& key) {
    feed(engine.inputs(), 0);
    *engine.inputs().dropout_key = key;
    engine.micro_step();
    engine.restore({.scalars = {.applied = 0}});
    engine.update();
    set_weights(graph, engine);
    return engine.drain_losses().front();
  };
  const double first = loss_of({1, 2, 3});
  EXPECT_EQ(loss_of({1, 2, 3}), first);
  EXPECT_NE(loss_of({2, 2, 3}), first);
  EXPECT_NE(loss_of({1, 3, 3}), first);
  EXPECT_NE(loss_of({1, 2, 4}), first);
}

TEST(Engine, AnUpdateInTheMiddleOfAStepIsABug) {
  const auto backend = backend_of_this_thread();
  const auto comm = make_solo();
  Engine engine(*backend, *comm, lower_training(graph_of(tiny_net), kSgd, {.accumulation = 2}), schedule(kSgd));
  feed(engine.inputs(), 0);
  engine.micro_step();
  EXPECT_ANY_THROW(engine.update());
}

TEST(Evaluator, SharesTheEnginesParametersAndRepeatsItsLosses) {
  const auto backend = backend_of_this_thread();
  const auto comm = make_solo();
  const Graph graph = graph_of(small_net);
  Engine engine(*backend, *comm, lower_training(graph, kAdam, {}), schedule(kAdam));
  set_weights(graph, engine);
  const Graph forward = graph_of(small_net, DType::f32, Mode::evaluate);
  Evaluator evaluator(*backend, *comm, lower_evaluation(forward, {}),
                      {.params = engine.params(), .arena = engine.bound().arena()});
  for (int64_t step = 0; step < 3; ++step) {  // sees every update
    const Inputs to = evaluator.inputs();
    feed(to, step);  // both programs use one arena, one after the other
    evaluator.run();
    const std::vector<float> losses(evaluator.losses().begin(), evaluator.losses().end());
    for (int64_t i = 0; i < kBatch; ++i)
      EXPECT_EQ(evaluator.label_rank()[static_cast<size_t>(i)] == 0,
                evaluator.predicted()[static_cast<size_t>(i)] == to.labels[i]);
    feed(engine.inputs(), step);
    engine.micro_step();
    double sum = 0;
    for (const float loss : losses) sum += loss;
    EXPECT_EQ(engine.drain_losses(), std::vector<double>{sum});
    engine.update();
  }
}

/// Losses of an evaluation after two steps of training on threads as ranks.
std::vector<float> evaluated(const Setting& setting) {
  std::vector<float> losses;
  run_ranks(setting.ranks, [&](Communicator& comm) {
    const auto backend = backend_of_this_thread();
    const Graph graph = graph_of(setting.model, setting.compute);
    const Distribution d = distribution_of(setting, comm.rank());
    Engine engine(*backend, comm, lower_training(graph, setting.rule, d), schedule(setting.rule));
    Evaluator evaluator(*backend, comm, lower_evaluation(graph_of(setting.model, setting.compute, Mode::evaluate), d),
                        {.params = engine.params(), .arena = engine.bound().arena()});
    set_weights(graph, engine);
    for (int64_t step = 0; step < 2; ++step) {
      micro_steps(engine, comm, step);
      engine.update();
    }
    engine.settle();
    feed(evaluator.inputs(), 50);
    evaluator.run();
    if (comm.rank() == 0) losses.assign(evaluator.losses().begin(), evaluator.losses().end());
    return 0;
  });
  return losses;
}

/// What evaluations say of weights and average, and whether exchanging both leaves no trace.
struct Exchanged {
  std::vector<float> of_weights, of_average, of_average_as_weights;
};
Exchanged exchanged(const Setting& setting) {
  Exchanged found;
  run_ranks(setting.ranks, [&](Communicator& comm) {
    const auto backend = backend_of_this_thread();
    const Graph graph = graph_of(setting.model, setting.compute);
    const Distribution d = distribution_of(setting, comm.rank());
    Engine engine(*backend, comm, lower_training(graph, setting.rule, d), schedule(setting.rule));
    Evaluator evaluator(*backend, comm, lower_evaluation(graph_of(setting.model, setting.compute, Mode::evaluate), d),
                        {.params = engine.params(), .arena = engine.bound().arena()});
    const auto losses = [&] {
      feed(evaluator.inputs(), 50);
      evaluator.run();
      return std::vector<float>(evaluator.losses().begin(), evaluator.losses().end());
    };
    set_weights(graph, engine);
    for (int64_t step = 0; step < 4; ++step) {
      micro_steps(engine, comm, step);
      engine.update();
    }
    const Outcome before = outcome_of(engine, comm, {});
    const std::vector<float> plain = losses();
    engine.exchange_average();
    const std::vector<float> average = losses();
    engine.exchange_average();
    expect_same_bits(outcome_of(engine, comm, {}), before);
    EXPECT_EQ(losses(), plain);
    // Training goes on as if nothing had been evaluated, and the average as weights gives the same.
    micro_steps(engine, comm, 4);
    engine.update();
    const StateBuffer weights = engine.state().front();
    for (const Range& r : weights.ranges())
      std::copy(before.state[1].begin() + r.begin, before.state[1].begin() + r.end, weights(r).begin());
    engine.state_written();
    const std::vector<float> as_weights = losses();
    if (comm.rank() == 0) found = {plain, average, as_weights};
    return 0;
  });
  return found;
}

TEST_P(EveryStage, EvaluatesTheAverageInThePlaceOfTheWeights) {
  if (!can_compute(compute())) GTEST_SKIP() << "no " << name_of(compute()) << " here";
  const Setting alone{.rule = kAveraged, .micro_batches = 4, .model = model(), .compute = compute()};
  const Exchanged expected = exchanged(alone);
  EXPECT_NE(expected.of_average, expected.of_weights);
  for (int stage = 0; stage <= 3; ++stage)
    for (const int64_t threshold : {0, 20, 1 << 20}) {
      SCOPED_TRACE(testing::Message() << "stage " << stage << ", vectors of " << threshold << " stay whole");
      Setting setting = alone;
      setting.ranks = 2;
      setting.stage = stage;
      setting.zero.persistence_threshold = threshold;
      const Exchanged found = exchanged(setting);
      EXPECT_EQ(found.of_weights, expected.of_weights);
      EXPECT_EQ(found.of_average, expected.of_average);
      EXPECT_EQ(found.of_average_as_weights, expected.of_average);
    }
}

TEST_P(EveryStage, EvaluatesTheSame) {
  if (!can_compute(compute())) GTEST_SKIP() << "no " << name_of(compute()) << " here";
  const Setting alone{.micro_batches = 4, .model = model(), .compute = compute()};
  const std::vector<float> expected = evaluated(alone);
  for (int stage = 0; stage <= 3; ++stage)
    for (const int64_t threshold : {0, 20, 1 << 20}) {
      SCOPED_TRACE(testing::Message() << "stage " << stage << ", vectors of " << threshold << " stay whole");
      Setting setting = alone;
      setting.ranks = 2;
      setting.stage = stage;
      setting.zero.persistence_threshold = threshold;
      EXPECT_EQ(evaluated(setting), expected);
    }
}

}  // namespace
}  // namespace ct
