// A model in training on one rank, seen in PyTorch's order, for comparison with a scalar reference.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "base/random.h"
#include "comm/host/threads.h"
#include "engine/engine.h"
#include "model/models.h"
#include "plan/lower.h"
#include "reference/cnn.h"

namespace ct {

inline constexpr double kEps = std::numeric_limits<float>::epsilon();

class Network {
 public:
  Network(const Builder& model, int64_t batch, const UpdateRule& rule, double lr, uint64_t seed = 42, int64_t side = 32,
          DType compute = DType::f32)
      : batch_(batch), side_(side), model_(model), backend_(make_cpu_backend()), comm_(make_solo()) {
    backend_->enter_thread();
    const float scale = 1 / 127.5f;
    spec_ = {.batch = batch,
             .height = side,
             .width = side,
             .scale = {scale, scale, scale},
             .shift = {-1, -1, -1},
             .compute = compute};
    graph_ = build_graph(model, spec_);
    engine_ = std::make_unique<Engine>(*backend_, *comm_, lower_training(graph_, rule, {}),
                                       [lr](int64_t) { return ScheduleRow{.lr = lr, .coefficients = {0.9}}; });
    const StateBuffer weights = engine_->state().front();
    for (size_t i = 0; i < graph_.parameters().size(); ++i)
      graph_.parameters()[i].layout.from_torch(initial_values(graph_, i, seed), weights(range(i)));
    engine_->state_written();
  }
  Network(const std::string& model, int64_t batch, const UpdateRule& rule, double lr, uint64_t seed = 42)
      : Network(find_model({.name = model}), batch, rule, lr, seed) {}

  /// The micro-batch number `index` of random pixels and labels, also as the reference wants it.
  reference::Batch feed(uint64_t index) { return feed(index, engine_->inputs()); }
  double step() {
    engine_->micro_step();
    engine_->update();
    return engine_->drain_losses().front() / static_cast<double>(batch_);
  }
  void micro_step() { engine_->micro_step(); }
  /// The mean loss of that micro-batch as an evaluation computes it.
  double evaluate(uint64_t index) {
    InputSpec spec = spec_;
    spec.mode = Mode::evaluate;
    Evaluator evaluator(*backend_, *comm_, lower_evaluation(build_graph(model_, spec), {}),
                        {.params = engine_->params()});
    const Inputs in = evaluator.inputs();
    feed(index, in);
    std::ranges::fill(in.draws, Draw{});
    evaluator.run();
    double sum = 0;
    for (const float loss : evaluator.losses()) sum += loss;
    return sum / static_cast<double>(batch_);
  }

  const Graph& graph() const { return graph_; }
  /// The f32 masters.
  reference::Parameters<double> parameters() const {
    const StateBuffer weights = engine_->state().front();
    return torch_order([&](size_t i) { return weights(range(i)); });
  }
  reference::Parameters<double> gradients() const {
    float* flat = engine_->bound().tensor(engine_->lowered().grads).as<float>();
    return torch_order(
        [&](size_t i) { return std::span<float>(flat + range(i).begin, static_cast<size_t>(range(i).size())); });
  }
  double loss() const { return engine_->drain_losses().front() / static_cast<double>(batch_); }

 private:
  reference::Batch feed(uint64_t index, const Inputs& in) const {
    Random random(3, Purpose::augment, index);
    reference::Batch batch;
    for (int64_t i = 0; i < batch_ * 3 * side_ * side_; ++i) {
      in.images[i] = static_cast<uint8_t>(random.below(256));
      batch.images.push_back(in.images[i] * static_cast<double>(1 / 127.5f) - 1);
    }
    for (int64_t i = 0; i < batch_; ++i) batch.labels.push_back(in.labels[i] = static_cast<int32_t>(random.below(10)));
    return batch;
  }
  const Range& range(size_t parameter) const { return engine_->lowered().flat.parameters[parameter]; }
  template <class Storage>
  reference::Parameters<double> torch_order(Storage storage) const {
    reference::Parameters<double> all;
    for (size_t i = 0; i < graph_.parameters().size(); ++i) {
      const Layout& layout = graph_.parameters()[i].layout;
      std::vector<float> values(static_cast<size_t>(layout.numel()));
      layout.to_torch(storage(i), values);
      all.emplace_back(values.begin(), values.end());
    }
    return all;
  }

  int64_t batch_, side_;
  Builder model_;
  InputSpec spec_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> comm_;
  Graph graph_;
  std::unique_ptr<Engine> engine_;
};

inline const UpdateRule kSgd{.optimizer = optim::Sgd{.momentum = 0.9}};

}  // namespace ct
