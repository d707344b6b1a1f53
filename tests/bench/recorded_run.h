// The program's own update, fed with gradients that were recorded elsewhere: the engine of a network on one rank, of
// which only the update is run.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/host/threads.h"
#include "engine/engine.h"
#include "optim/schedule.h"
#include "plan/lower.h"

namespace ct {

class RecordedRun {
 public:
  RecordedRun(const Graph& graph, const optim::Optimizer& optimizer)
      : graph_(graph),
        backend_(backend_of_this_thread()),
        comm_(make_solo()),
        engine_(*backend_, *comm_, lower_training(graph, {.optimizer = optimizer}, {}),
                [optimizer](int64_t step) { return optim::schedule_row(optim::Constant(), optimizer, step); }) {}

  /// Values of every parameter in PyTorch's order.
  using Values = std::vector<std::vector<float>>;
  void set_weights(const Values& values) {
    const StateBuffer weights = engine_.state().front();
    each([&](size_t i, const Parameter& p, const Range& at) { p.layout.from_torch(values[i], weights(at)); });
    engine_.state_written();
  }
  Values weights() {
    const StateBuffer weights = engine_.state().front();
    Values values(graph_.parameters().size());
    each([&](size_t i, const Parameter& p, const Range& at) {
      values[i].resize(static_cast<size_t>(p.layout.numel()));
      p.layout.to_torch(weights(at), values[i]);
    });
    return values;
  }
  /// One step by these gradients.
  void step(const Values& gradients) {
    auto* const all = engine_.bound().tensor(engine_.lowered().grads).as<float>();
    each([&](size_t i, const Parameter& p, const Range& at) {
      p.layout.from_torch(gradients[i], {all + at.begin, static_cast<size_t>(at.size())});
    });
    engine_.bound().run_update();
  }

 private:
  static std::unique_ptr<Backend> backend_of_this_thread() {
    auto backend = make_cpu_backend();
    backend->enter_thread();
    return backend;
  }
  template <class F>
  void each(F f) const {
    for (size_t i = 0; i < graph_.parameters().size(); ++i)
      f(i, graph_.parameters()[i], engine_.lowered().flat.parameters[i]);
  }

  const Graph& graph_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> comm_;
  Engine engine_;
};

}  // namespace ct
