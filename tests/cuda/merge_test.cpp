// Operations that one kernel computes: fewer launches, the same bits as by a kernel for each.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "comm/host/threads.h"
#include "device/cuda.h"
#include "engine/engine.h"
#include "plan/lower.h"

namespace ct {
namespace {

constexpr int64_t kImages = 3, kPixels = 14;

/// The tutorial's network, in small.
ValueId small_net(Graph& g, ValueId images, int classes) {
  const ValueId h = g.conv_relu_pool(g.conv_relu_pool(images, "conv1", 3, 3), "conv2", 5, 3);
  const ValueId hidden = g.linear(g.flatten(h), "fc1", 20, {.activation = Activation::relu});
  return g.linear(g.linear(hidden, "fc2", 12, {.activation = Activation::relu}), "fc3", classes);
}

/// Two residual blocks of a convolution each.
ValueId residual_net(Graph& g, ValueId images, int classes) {
  const ConvOptions plain{.pad = 1, .bias = false};
  ValueId h = g.conv2d(images, "stem", 8, 3, plain);
  for (const std::string block : {"a", "b"})
    h = g.batchnorm(g.conv2d(h, block + ".conv", 8, 3, plain), block + ".bn", Activation::relu, h);
  return g.linear(g.average_pool(h), "fc", classes);
}

/// Two blocks of a transformer, each a layer with dropout.
ValueId transformer(Graph& g, ValueId images, int classes) {
  const ValueId x = g.linear(g.flatten(images), "embedding", 128);
  const auto block = [&](ValueId from, ValueId stream, const std::string& name) {
    return g.add_layer_norm(g.dropout(g.linear(from, name, 128), 0.3), stream, name + ".norm", {});
  };
  const auto first = block(x, x, "a");
  return g.linear(block(first.y, first.sum, "b").y, "fc", classes);
}

/// A layer's activation is dropped, as in a transformer's feed-forward network.
ValueId feed_forward(Graph& g, ValueId images, int classes) {
  const ValueId x = g.linear(g.flatten(images), "embedding", 40);
  const ValueId hidden = g.dropout(g.linear(x, "hidden", 24, {.activation = Activation::gelu}), 0.3);
  return g.linear(hidden, "fc", classes);
}

/// A GPU that merges nothing.
class OneByOne final : public Backend {
 public:
  std::string description() const override { return cuda_->description(); }
  std::string problem_with(DType type) const override { return cuda_->problem_with(type); }
  void enter_thread() override { cuda_->enter_thread(); }
  Memory allocate(size_t bytes) override { return cuda_->allocate(bytes); }
  bool is_host() const override { return false; }
  Memory allocate_host(size_t bytes) override { return cuda_->allocate_host(bytes); }
  Memory pin(std::span<std::byte> memory) override { return cuda_->pin(memory); }
  void copy(void* to, const void* from, size_t bytes) override { cuda_->copy(to, from, bytes); }
  std::function<void()> ring_copies(const std::vector<RingCopy>& copies) override { return cuda_->ring_copies(copies); }
  void clear(void* at, size_t bytes) override { cuda_->clear(at, bytes); }
  void wait() override { cuda_->wait(); }
  std::unique_ptr<Event> make_event() override { return cuda_->make_event(); }
  std::unique_ptr<Instant> make_instant() override { return cuda_->make_instant(); }
  std::unique_ptr<Kernel> prepare(const ComputeOp& op, const std::vector<Value>& values) override {
    return cuda_->prepare(op, values);
  }
  std::unique_ptr<Replay> record(const std::function<void()>& body) override { return cuda_->record(body); }

 private:
  std::unique_ptr<Backend> cuda_ = make_cuda_backend({});
};

int launches = 0;
on_host::LaunchHook launch_kernel = nullptr;
cudaError_t count_and_launch(cudaStream_t stream, cudaError_t configuration, on_host::KernelLaunch kernel) {
  ++launches;
  return launch_kernel(stream, configuration, std::move(kernel));
}

struct Result {
  std::vector<float> weights;
  std::vector<double> losses;
  int launches_a_step;
};

/// Three steps from the same weights.
Result train(Backend& backend, const Builder& net, DType compute, int accumulation, bool record,
             const optim::Optimizer& optimizer = optim::Sgd{}, bool relu_bits = false) {
  backend.enter_thread();
  const auto comm = make_solo();
  const Graph graph = build_graph(net, {.batch = kImages,
                                        .height = kPixels,
                                        .width = kPixels,
                                        .classes = 5,
                                        .scale = {0.01f, 0.01f, 0.01f},
                                        .shift = {-1, -1, -1},
                                        .compute = compute,
                                        .relu_bits = relu_bits});
  Engine engine(backend, *comm,
                lower_training(graph, {.optimizer = optimizer, .clip = 1}, {.accumulation = accumulation}),
                [](int64_t) {
                  return ScheduleRow{.lr = 0.1, .coefficients = {0.9, 0.999, 0.1, 0.001}};
                },
                {.record = record});
  Random random(1, Purpose::init);
  const StateBuffer weights = engine.state().front();
  for (const Range& range : weights.ranges())
    for (float& w : weights(range)) w = static_cast<float>(random.uniform() - 0.5);
  engine.state_written();
  Result result;
  launch_kernel = std::exchange(on_host::launch_hook, count_and_launch);
  for (int64_t step = 0; step < 3; ++step) {
    launches = 0;
    for (int64_t k = 0; k < accumulation; ++k) {
      const Inputs in = engine.inputs();
      for (uint8_t& pixel : in.images) pixel = static_cast<uint8_t>(255 * random.uniform());
      std::ranges::fill(in.draws, Draw{});
      std::ranges::fill(in.labels, static_cast<int32_t>(step));
      engine.micro_step();
    }
    engine.update();
    if (step == 0) result.launches_a_step = launches;
  }
  result.losses = engine.drain_losses();
  on_host::launch_hook = launch_kernel;
  const StateBuffer trained = engine.state().front();
  for (const Range& range : trained.ranges()) {
    const auto part = trained(range);
    result.weights.insert(result.weights.end(), part.begin(), part.end());
  }
  return result;
}

/// With one micro-step `saves` launches; with several, sums of gradients come between some gradients of a layer.
void expect_same_bits(const Builder& net, int saves) {
  for (const DType compute : {DType::f32, DType::bf16})
    for (const int accumulation : {1, 2}) {
      SCOPED_TRACE(testing::Message() << name_of(compute) << ", " << accumulation << " micro-steps");
      OneByOne apart;
      const Result expected = train(apart, net, compute, accumulation, /*record=*/false);
      for (const bool record : {false, true}) {
        const Result merged =
            train(*make_cuda_backend({}), net, compute, accumulation, record, optim::Sgd{}, /*relu_bits=*/record);
        EXPECT_EQ(merged.weights, expected.weights);
        EXPECT_EQ(merged.losses, expected.losses);
        const int saved = expected.launches_a_step - merged.launches_a_step;
        if (accumulation == 1)
          EXPECT_EQ(saved, saves);
        else
          EXPECT_GT(saved, 0);
      }
    }
}

/// Three linear layers, two of them behind a ReLU, and one convolution behind another; the loss; in the update, the
/// norm.
TEST(Merge, TakesFewerLaunchesToTheSameBits) { expect_same_bits(small_net, 3 + 2 + 1 + 1 + 1); }

/// Five matrices of Muon, each of which would take as many launches as all.
TEST(Merge, OrthogonalizesMatricesTogether) {
  const optim::Optimizer muon = optim::Muon{.ns_steps = 3};
  constexpr int kOfOne = 2 + 3 * 3;
  OneByOne apart;
  const Result expected = train(apart, small_net, DType::bf16, 1, /*record=*/false, muon);
  for (const bool record : {false, true}) {
    const Result merged = train(*make_cuda_backend({}), small_net, DType::bf16, 1, record, muon);
    EXPECT_EQ(merged.weights, expected.weights);
    EXPECT_EQ(merged.losses, expected.losses);
    EXPECT_EQ(expected.launches_a_step - merged.launches_a_step, 3 + 2 + 1 + 1 + 1 + 4 * kOfOne);
  }
}

/// A sum of gradients before a batch norm, a linear layer, its loss, the norm. In 16 bits, bits of the ReLU behind the
/// sum take the place of its result, to the same bits.
TEST(Merge, AddsGradientsBehindAResidualBlock) { expect_same_bits(residual_net, 1 + 1 + 1 + 1); }

/// Dropout before two norms, and behind the gradient of the one whose sum goes on; a linear layer, its loss, the norm
/// of the gradient.
TEST(Merge, DropsElementsBesideLayerNorms) { expect_same_bits(transformer, 2 + 1 + 3 + 1 + 1); }

/// Dropout behind an activation, and before its gradient; two linear layers, the loss, the norm of the gradient.
TEST(Merge, DropsElementsBehindActivations) { expect_same_bits(feed_forward, 1 + 1 + 2 + 1 + 1); }

/// What `writer` writes lies nowhere in what `reader` reads, unless it is meant for it.
void expect_apart(const BoundProgram& bound, const Op& writer, const Op& reader) {
  const LoweredProgram& program = bound.lowered();
  for (const ValueId written : writes(writer))
    for (const ValueId read : reads(reader)) {
      const std::byte *a = bound.tensor(written).data, *b = bound.tensor(read).data;
      EXPECT_TRUE(written == read || a + stored_bytes(program[written]) <= b || b + stored_bytes(program[read]) <= a)
          << program[written].name << " lies in " << program[read].name;
    }
}

/// A merged kernel writes results while it reads all operands, so none may lie where another does.
TEST(Merge, OperandsLiveTogether) {
  const auto backend = make_cuda_backend({});
  backend->enter_thread();
  const auto comm = make_solo();
  const Graph graph = build_graph(small_net, {.batch = kImages,
                                              .height = kPixels,
                                              .width = kPixels,
                                              .classes = 5,
                                              .scale = {0.01f, 0.01f, 0.01f},
                                              .shift = {0, 0, 0}});
  const BoundProgram bound(*backend, *comm, lower_training(graph, {.optimizer = optim::Sgd{}}, {}));
  const LoweredProgram& program = bound.lowered();
  int merged = 0;
  for (size_t i = 0; i < program.last.size(); ++i) {
    if (!program.last[i].merged) continue;
    ++merged;
    size_t first = i;
    while (program.last[first].merged) --first;
    EXPECT_EQ(program.last[i].time, program.last[first].time);
    for (size_t k = first; k < i; ++k) {
      expect_apart(bound, program.last[i].op, program.last[k].op);
      expect_apart(bound, program.last[k].op, program.last[i].op);
    }
  }
  EXPECT_EQ(merged, 3 + 2 + 1 + 1);
}

}  // namespace
}  // namespace ct
