// Dropout on a GPU whose steps are recorded: the key lies in device memory beside the images, so a replay draws anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "comm/host/threads.h"
#include "device/cuda.h"
#include "engine/engine.h"
#include "plan/lower.h"

namespace ct {
namespace {

constexpr int64_t kBatch = 2, kSide = 8;

ValueId net(Graph& g, ValueId images, int classes) {
  const ValueId h = g.dropout(g.linear(g.flatten(images), "hidden", 32), 0.5);
  return g.linear(g.dropout(h, 0.2), "out", classes);
}

/// The losses of steps on the same images, without a change of weights.
std::vector<double> losses(Backend& backend, bool record) {
  backend.enter_thread();
  const auto comm = make_solo();
  const Graph graph = build_graph(net, {.batch = kBatch,
                                        .height = kSide,
                                        .width = kSide,
                                        .classes = 5,
                                        .scale = {0.01f, 0.01f, 0.01f},
                                        .shift = {0, 0, 0}});
  Engine engine(backend, *comm, lower_training(graph, {.optimizer = optim::Sgd{}}, {.accumulation = 2}),
                [](int64_t) { return ScheduleRow{.lr = 0}; }, {.record = record});
  Random random(1, Purpose::init);
  const StateBuffer weights = engine.state().front();
  for (const Range& range : weights.ranges())
    for (float& w : weights(range)) w = static_cast<float>(random.uniform() - 0.5);
  engine.state_written();
  for (int64_t step = 0; step < 4; ++step) {
    for (int64_t k = 0; k < 2; ++k) {
      const Inputs in = engine.inputs();
      std::ranges::fill(in.images, uint8_t{100});
      std::ranges::fill(in.draws, Draw{});
      std::ranges::fill(in.labels, 1);
      *in.dropout_key = {.seed = 42, .step = step, .micro_batch = k};
      engine.micro_step();
    }
    engine.update();
  }
  return engine.drain_losses();
}

TEST(CudaDropout, ReplaysDrawAnewAndTheSameAsLaunches) {
  const std::vector<double> recorded = losses(*make_cuda_backend({}), /*record=*/true);
  EXPECT_EQ(recorded, losses(*make_cuda_backend({}), /*record=*/false));
  EXPECT_EQ(std::set<double>(recorded.begin(), recorded.end()).size(), recorded.size()) << "a mask was drawn twice";
  const std::vector<double> on_cpu = losses(*make_cpu_backend(), /*record=*/false);
  for (size_t i = 0; i < recorded.size(); ++i) EXPECT_NEAR(recorded[i], on_cpu[i], 1e-4 * on_cpu[i]) << i;
}

}  // namespace
}  // namespace ct
