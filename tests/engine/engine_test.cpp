#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "base/random.h"
#include "comm/threads.h"
#include "plan/lower.h"

namespace ct {
namespace {

constexpr int64_t kBatch = 2, kSide = 8, kClasses = 5;

ValueId small_net(Graph& g, ValueId images, int classes) {
  const ValueId h = g.max_pool(g.relu(g.conv2d(images, "conv", 4, 3)), 2);
  return g.linear(g.linear(g.flatten(h), "hidden", 20, Activation::relu), "out", classes);
}
ValueId tiny_net(Graph& g, ValueId images, int classes) { return g.linear(g.flatten(images), "out", classes); }

Graph graph_of(const Builder& model) {
  const float scale = 1 / 127.5f;
  return build_graph(model, {.batch = kBatch,
                             .height = kSide,
                             .width = kSide,
                             .classes = kClasses,
                             .scale = {scale, scale, scale},
                             .shift = {-1, -1, -1}});
}

const UpdateRule kAdam{.optimizer = AdamRule{.beta1 = 0.8}, .weight_decay = 0.01, .decay_vectors = false, .clip = 1};
const UpdateRule kSgd{.optimizer = SgdRule{.momentum = 0.9}};

ScheduleRow schedule(int64_t step) {
  const double t = static_cast<double>(step + 1);
  return {.lr = 0.01 / t, .bias_correction1 = 1 - std::pow(0.8, t), .bias_correction2 = 1 - std::pow(0.999, t)};
}

/// Weights that depend on their place alone; pads stay zero because only parameters' elements are drawn.
void set_weights(const Graph& graph, Engine& engine) {
  const std::span<float> params = engine.state().front().values;
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& p = graph.parameters()[i];
    std::vector<float> values(static_cast<size_t>(p.layout.numel()));
    Random random(1, Purpose::init, i);
    for (float& v : values) v = static_cast<float>((2 * random.uniform() - 1) * p.init_bound);
    const Range& r = engine.lowered().flat.parameters[i];
    p.layout.from_torch(values, params.subspan(static_cast<size_t>(r.begin), static_cast<size_t>(r.size())));
  }
}

std::unique_ptr<Backend> backend_of_this_thread() {
  auto backend = make_cpu_backend();
  backend->enter_thread();
  return backend;
}

/// The images and labels of one micro-batch of the run.
void feed(const Engine& engine, int64_t micro_batch) {
  Random random(2, Purpose::augment, static_cast<uint64_t>(micro_batch));
  const Inputs in = engine.inputs();
  for (int64_t i = 0; i < kBatch * 3 * kSide * kSide; ++i) in.images[i] = static_cast<uint8_t>(random.below(256));
  for (int64_t i = 0; i < kBatch; ++i) {
    const int32_t draw[4] = {static_cast<int32_t>(random.below(3)) - 1, 1, static_cast<int32_t>(random.below(2)), 0};
    std::memcpy(in.draws + 4 * i, draw, sizeof draw);
    in.labels[i] = static_cast<int32_t>(random.below(kClasses));
  }
}

/// Runs the micro-steps of step `step` on this rank.
void micro_steps(Engine& engine, Communicator& comm, int64_t step) {
  const Distribution& d = engine.lowered().distribution;
  for (int j = 0; j < d.accumulation; ++j) {
    feed(engine, step * d.micro_batches() + d.micro_batch(comm.rank(), j));
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

Outcome outcome_of(Engine& engine, std::vector<double> losses) {
  Outcome outcome{.losses = std::move(losses), .scalars = engine.scalars()};
  for (const StateBuffer& b : engine.state()) outcome.state.emplace_back(b.values.begin(), b.values.end());
  return outcome;
}

/// Trains on threads as ranks; every rank must end with the same state.
Outcome train(const UpdateRule& rule, int ranks, int micro_batches, int64_t steps) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Communicator& comm) {
    const auto backend = backend_of_this_thread();
    const Graph graph = graph_of(small_net);
    Engine engine(*backend, comm, lower_training(graph, rule, {.ranks = ranks, .accumulation = micro_batches / ranks}),
                  schedule);
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
    outcomes[static_cast<size_t>(comm.rank())] = outcome_of(engine, losses);
    return 0;
  });
  for (const Outcome& o : outcomes) expect_same_bits(o, outcomes[0]);
  return outcomes[0];
}

TEST(Engine, AnyNumberOfRanksEndsInTheSameBits) {
  for (const int micro_batches : {6, 8, 12}) {
    const Outcome alone = train(kAdam, 1, micro_batches, 5);
    EXPECT_EQ(alone.losses.size(), static_cast<size_t>(5 * micro_batches));
    EXPECT_EQ(alone.scalars.applied, 5);
    EXPECT_TRUE(std::isfinite(alone.losses.back()));
    for (const int ranks : {2, 3, 4, 6}) {
      if (micro_batches % ranks != 0) continue;
      SCOPED_TRACE(testing::Message() << micro_batches << " micro-batches on " << ranks << " ranks");
      expect_same_bits(train(kAdam, ranks, micro_batches, 5), alone);
    }
  }
}

TEST(Engine, MomentumToo) { expect_same_bits(train(kSgd, 3, 6, 4), train(kSgd, 1, 6, 4)); }

TEST(Engine, LossesAreThoseOfTheirMicroBatchesInOrder) {
  // With a single micro-batch a step and a rate of nothing the same losses come one by one.
  const UpdateRule still{.optimizer = SgdRule{}};
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
  for (const auto& [ranks, accumulation] : {std::pair{1, 1}, {1, 3}, {2, 2}, {3, 2}, {2, 3}})
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks x " << accumulation << ", " << bad);
      std::vector<Outcome> before(static_cast<size_t>(ranks)), after(before), later(before), never(before);
      run_ranks(ranks, [&, ranks = ranks, accumulation = accumulation](Communicator& comm) {
        const auto backend = backend_of_this_thread();
        const Graph graph = graph_of(small_net);
        const Lowered lowered = lower_training(graph, kAdam, {.ranks = ranks, .accumulation = accumulation});
        Engine engine(*backend, comm, lowered, schedule), other(*backend, comm, lowered, schedule);
        const auto me = static_cast<size_t>(comm.rank());
        const auto step = [&](Engine& e, int64_t number) {
          micro_steps(e, comm, number);
          e.update();
        };
        set_weights(graph, engine);
        step(engine, 0);
        before[me] = outcome_of(engine, {});

        // One weight of the last rank breaks for the length of one micro-step.
        for (int j = 0; j < accumulation; ++j) {
          feed(engine, 100 + j);
          float& weight = engine.state().front().values[0];
          const float kept = weight;
          if (comm.rank() == ranks - 1 && j == accumulation / 2) weight = bad;
          engine.micro_step();
          weight = kept;
        }
        engine.update();
        after[me] = outcome_of(engine, {});
        step(engine, 1);
        later[me] = outcome_of(engine, {});

        set_weights(graph, other);
        step(other, 0);
        step(other, 1);
        never[me] = outcome_of(other, {});
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

TEST(Engine, ScheduleGoesOnBeyondItsWindowAndSkippedStepsUseNoRow) {
  const auto backend = backend_of_this_thread();
  const auto comm = make_solo();
  const Graph graph = graph_of(tiny_net);
  Engine engine(*backend, *comm, lower_training(graph, kSgd, {}),
                [](int64_t step) { return ScheduleRow{.lr = 1e-9 * static_cast<double>(step + 1)}; });
  set_weights(graph, engine);
  feed(engine, 0);
  int64_t applied = 0, skipped = 0;
  for (int64_t step = 0; step < 2 * kScheduleWindow + 100; ++step) {
    float& weight = engine.state().front().values[0];
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
  feed(engine, 0);
  for (const int64_t applied : {int64_t{0}, int64_t{7}, kScheduleWindow - 1, 5 * kScheduleWindow + 3}) {
    engine.restore({.applied = applied, .skipped = 4, .bad_streak = 2});
    engine.micro_step();
    engine.update();
    EXPECT_EQ(engine.scalars().lr, static_cast<double>(applied + 1));
    EXPECT_EQ(engine.scalars().skipped, 4);
  }
}

TEST(Engine, AnUpdateInTheMiddleOfAStepIsABug) {
  const auto backend = backend_of_this_thread();
  const auto comm = make_solo();
  Engine engine(*backend, *comm, lower_training(graph_of(tiny_net), kSgd, {.accumulation = 2}), schedule);
  feed(engine, 0);
  engine.micro_step();
  EXPECT_ANY_THROW(engine.update());
}

TEST(Evaluator, SharesTheEnginesParametersAndRepeatsItsLosses) {
  const auto backend = backend_of_this_thread();
  const auto comm = make_solo();
  const Graph graph = graph_of(small_net);
  Engine engine(*backend, *comm, lower_training(graph, kAdam, {}), schedule);
  set_weights(graph, engine);
  const float scale = 1 / 127.5f;
  const Graph forward = build_graph(small_net, {.batch = kBatch,
                                                .height = kSide,
                                                .width = kSide,
                                                .classes = kClasses,
                                                .scale = {scale, scale, scale},
                                                .shift = {-1, -1, -1},
                                                .mode = Mode::evaluate});
  Evaluator evaluator(*backend, *comm, lower_evaluation(forward, engine.lowered().flat), engine.params());
  for (int64_t step = 0; step < 3; ++step) {  // sees every update
    feed(engine, step);
    const Inputs from = engine.inputs(), to = evaluator.inputs();
    std::memcpy(to.images, from.images, static_cast<size_t>(kBatch * 3 * kSide * kSide));
    std::memcpy(to.draws, from.draws, static_cast<size_t>(kBatch) * 16);
    std::memcpy(to.labels, from.labels, static_cast<size_t>(kBatch) * 4);
    evaluator.run();
    engine.micro_step();
    double sum = 0;
    for (const float loss : evaluator.losses()) sum += loss;
    EXPECT_EQ(engine.drain_losses(), std::vector<double>{sum});
    for (int64_t i = 0; i < kBatch; ++i)
      EXPECT_EQ(evaluator.larger()[static_cast<size_t>(i)] == 0,
                evaluator.predicted()[static_cast<size_t>(i)] == to.labels[i]);
    engine.update();
  }
}

}  // namespace
}  // namespace ct
