// Every optimizer's weights after 1,000 recorded gradients, against its formula in f64: no further from it than the
// formula in plain f32. tests/bench/torch_optimizers.py compares with PyTorch itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "bench/recorded_run.h"
#include "reference/optimizers.h"

namespace ct {
namespace {

constexpr int kSteps = 1000, kSeeds = 5;

/// A convolution, which is wide, and two layers whose rows are padded, one of them tall.
Graph network() {
  return build_graph(
      [](Graph& g, ValueId images, int classes) {
        const ValueId h = g.max_pool(g.relu(g.conv2d(images, "conv", 4, 3)), 2);
        return g.linear(g.linear(g.flatten(h), "hidden", 7, {.activation = Activation::relu}), "out", classes);
      },
      {.batch = 1, .height = 8, .width = 8, .classes = 10, .scale = {1, 1, 1}, .shift = {0, 0, 0}});
}

/// Gradients as training has them: each element of a size of its own, noise that outweighs what it points at.
class Recording {
 public:
  Recording(const Graph& graph, uint32_t seed) : random_(seed) {
    for (const Parameter& p : graph.parameters()) {
      const auto n = static_cast<size_t>(p.layout.numel());
      weights.push_back(normal(n, 0.1));
      aims_.push_back(normal(n, 0.3));
      sizes_.push_back(normal(n, 1));
      for (float& size : sizes_.back()) size = std::exp(2 * size) * 1e-3f;
    }
  }
  RecordedRun::Values next() {
    RecordedRun::Values gradients;
    for (size_t i = 0; i < weights.size(); ++i) {
      gradients.push_back(normal(weights[i].size(), 1));
      for (size_t k = 0; k < weights[i].size(); ++k) gradients[i][k] = sizes_[i][k] * (gradients[i][k] + aims_[i][k]);
    }
    return gradients;
  }
  RecordedRun::Values weights;

 private:
  std::vector<float> normal(size_t n, double scale) {
    std::normal_distribution<float> distribution(0, static_cast<float>(scale));
    std::vector<float> values(n);
    for (float& v : values) v = distribution(random_);
    return values;
  }
  std::mt19937 random_;
  RecordedRun::Values aims_, sizes_;
};

/// The formula's weights beside the program's.
template <class T>
struct Formula {
  Formula(const Graph& graph, const optim::Optimizer& of, const RecordedRun::Values& start) : optimizer(of) {
    for (size_t i = 0; i < start.size(); ++i)
      weights.push_back({.shape = graph.parameters()[i].shape, .p = {start[i].begin(), start[i].end()}});
  }
  void step(const RecordedRun::Values& gradients, int64_t t) {
    for (size_t i = 0; i < weights.size(); ++i) reference::update(optimizer, weights[i], gradients[i], t);
  }
  optim::Optimizer optimizer;
  std::vector<reference::Weights<T>> weights;
};

/// |a - b|, of `of(i, k)`: element k of parameter i.
template <class A, class B>
double distance(const RecordedRun::Values& sizes, A a, B b) {
  double sum = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    for (size_t k = 0; k < sizes[i].size(); ++k) {
      const double difference = static_cast<double>(a(i, k)) - static_cast<double>(b(i, k));
      sum += difference * difference;
    }
  return std::sqrt(sum);
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + kSeeds / 2);
  return values[kSeeds / 2];
}

class Distance : public testing::TestWithParam<optim::Optimizer> {};

TEST_P(Distance, IsNoMoreThanThatOfTheFormulaInF32) {
  const Graph graph = network();
  std::vector<double> ours, plain;
  for (uint32_t seed = 1; seed <= kSeeds; ++seed) {
    Recording recording(graph, seed);
    RecordedRun run(graph, GetParam());
    run.set_weights(recording.weights);
    Formula<double> exact(graph, GetParam(), recording.weights);
    Formula<float> rounded(graph, GetParam(), recording.weights);
    for (int64_t t = 1; t <= kSteps; ++t) {
      const RecordedRun::Values gradients = recording.next();
      run.step(gradients);
      exact.step(gradients, t);
      rounded.step(gradients, t);
    }
    const RecordedRun::Values end = run.weights();
    const auto of = [](const auto& formula) { return [&](size_t i, size_t k) { return formula.weights[i].p[k]; }; };
    const auto values = [](const RecordedRun::Values& v) { return [&](size_t i, size_t k) { return v[i][k]; }; };
    const double moved = distance(end, of(exact), values(recording.weights));
    EXPECT_GT(moved, 1e-3) << "nothing moved";
    ours.push_back(distance(end, values(end), of(exact)) / moved);
    plain.push_back(distance(end, of(rounded), of(exact)) / moved);
  }
  std::printf("%-24s %.2e from f64, the formula in f32 %.2e\n", std::string(optim::type_of(GetParam())).c_str(),
              median(ours), median(plain));
  EXPECT_LE(median(ours), 1.5 * median(plain));
  EXPECT_LT(median(ours), 1e-4);
}

/// Every optimizer, and keys that change more than a number. A rate that is not the default's is one that learns.
std::vector<optim::Optimizer> optimizers() {
  std::vector<optim::Optimizer> all = optim::all_of<optim::Optimizer>();
  for (optim::Optimizer& optimizer : all) std::visit([](auto& o) { o.weight_decay = 1e-3; }, optimizer);
  optim::Adam with_l2;
  with_l2.weight_decay = 0.01;
  with_l2.adam_w_mode = false;
  all.insert(all.end(),
             {with_l2, optim::AdamW{.weight_decay = 0.01, .bias_correction = false}, optim::AdamW{.weight_decay = 0.01},
              optim::Lion{.weight_decay = 0.1}, optim::Lamb{.weight_decay = 0.01},
              optim::Sgd{.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-3},
              optim::Sgd{.lr = 0.01, .momentum = 0.9, .nesterov = true},
              optim::RmsProp{.lr = 1e-3, .momentum = 0.5, .centered = true},
              optim::Adagrad{.lr_decay = 1e-3, .weight_decay = 1e-3},
              optim::Lars{.lr = 0.5, .momentum = 0.9, .trust_coeff = 0.01, .weight_decay = 1e-3},
              optim::Muon{.adamw_lr = 1e-3}});
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, Distance, testing::ValuesIn(optimizers()), [](const auto& info) {
  return std::string(optim::type_of(info.param)) + std::to_string(info.index);
});

}  // namespace
}  // namespace ct
