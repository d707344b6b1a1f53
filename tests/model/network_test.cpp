// Whole networks against a scalar reference in double: the loss, and every parameter's gradient.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/random.h"
#include "comm/threads.h"
#include "engine/engine.h"
#include "model/models.h"
#include "plan/lower.h"
#include "reference/cnn.h"

namespace ct {
namespace {

constexpr double kEps = std::numeric_limits<float>::epsilon();

/// A model in training on one rank, seen in PyTorch's order.
class Network {
 public:
  Network(std::string_view model, int64_t batch, const UpdateRule& rule, double lr, uint64_t seed = 42)
      : batch_(batch), backend_(make_cpu_backend()), comm_(make_solo()) {
    backend_->enter_thread();
    const float scale = 1 / 127.5f;
    graph_ = build_graph(find_model(model), {.batch = batch, .scale = {scale, scale, scale}, .shift = {-1, -1, -1}});
    engine_ = std::make_unique<Engine>(*backend_, *comm_, lower_training(graph_, rule, {}),
                                       [lr](int64_t) { return ScheduleRow{.lr = lr}; });
    initialize(graph_, engine_->lowered().flat, seed, engine_->state().front().values);
  }

  /// The micro-batch number `index` of random pixels and labels, also as the reference wants it.
  reference::Batch feed(uint64_t index) {
    Random random(3, Purpose::augment, index);
    const Inputs in = engine_->inputs();
    reference::Batch batch;
    for (int64_t i = 0; i < batch_ * 3 * 32 * 32; ++i) {
      in.images[i] = static_cast<uint8_t>(random.below(256));
      batch.images.push_back(in.images[i] * static_cast<double>(1 / 127.5f) - 1);
    }
    for (int64_t i = 0; i < batch_; ++i) batch.labels.push_back(in.labels[i] = static_cast<int32_t>(random.below(10)));
    return batch;
  }
  double step() {
    engine_->micro_step();
    engine_->update();
    return engine_->drain_losses().front() / static_cast<double>(batch_);
  }
  void micro_step() { engine_->micro_step(); }

  reference::Parameters<double> parameters() const { return torch_order(engine_->lowered().params); }
  reference::Parameters<double> gradients() const { return torch_order(engine_->lowered().grads); }
  double loss() const { return engine_->drain_losses().front() / static_cast<double>(batch_); }

 private:
  reference::Parameters<double> torch_order(ValueId buffer) const {
    const float* flat = engine_->bound().tensor(buffer).as<float>();
    reference::Parameters<double> all;
    for (size_t i = 0; i < graph_.parameters().size(); ++i) {
      const Layout& layout = graph_.parameters()[i].layout;
      const Range& r = engine_->lowered().flat.parameters[i];
      std::vector<float> values(static_cast<size_t>(layout.numel()));
      layout.to_torch({flat + r.begin, static_cast<size_t>(r.size())}, values);
      all.emplace_back(values.begin(), values.end());
    }
    return all;
  }

  int64_t batch_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> comm_;
  Graph graph_;
  std::unique_ptr<Engine> engine_;
};

/// Rounding of a network's gradient: each of its sums (`longest` terms at most) adds some, relative to the tensor's
/// largest element.
void expect_gradients(const reference::Parameters<double>& found, const reference::Parameters<double>& expected,
                      double longest) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].size(), expected[i].size());
    double largest = 0;
    for (const double g : expected[i]) largest = std::max(largest, std::abs(g));
    EXPECT_GT(largest, 0);
    for (size_t j = 0; j < found[i].size(); ++j)
      ASSERT_NEAR(found[i][j], expected[i][j], (4 + 2 * std::sqrt(longest)) * kEps * largest)
          << "element " << j << " of parameter " << i;
  }
}

const UpdateRule kSgd{.optimizer = SgdRule{.momentum = 0.9}};

TEST(Reference, CnnGradientIsTheDerivativeOfItsLoss) {
  Network network("cnn", 3, kSgd, 0);
  const reference::Batch batch = network.feed(0);
  const auto params = network.parameters();
  reference::Parameters<double> gradients;
  reference::cnn_gradient(params, batch, gradients);
  reference::Parameters<std::complex<double>> point;
  for (const auto& p : params) point.emplace_back(p.begin(), p.end());
  for (size_t i = 0; i < params.size(); ++i)
    for (size_t j = 0; j < params[i].size(); j += 1 + params[i].size() / 3) {
      const auto kept = point[i][j];
      point[i][j] += std::complex<double>(0, reference::kComplexStep);
      const double derivative = reference::cnn_forward(point, batch).loss.imag() / reference::kComplexStep;
      point[i][j] = kept;
      EXPECT_NEAR(derivative, gradients[i][j], 1e-12) << "element " << j << " of parameter " << i;
    }
}

TEST(Network, CnnGradientIsTheReferences) {
  for (const char* model : {"cnn", "cnn_plain"})
    for (const int64_t n : {1, 4, 17}) {
      SCOPED_TRACE(testing::Message() << model << " batch " << n);
      Network network(model, n, kSgd, 0);
      const reference::Batch batch = network.feed(7);
      network.micro_step();
      reference::Parameters<double> expected;
      const double loss = reference::cnn_gradient(network.parameters(), batch, expected);
      EXPECT_NEAR(network.loss(), loss, 8 * kEps * loss);
      expect_gradients(network.gradients(), expected, static_cast<double>(n) * 28 * 28);
    }
}

TEST(Network, LinearGradientIsTheComplexStepOfItsLoss) {
  constexpr int64_t kN = 3;
  Network network("linear", kN, kSgd, 0);
  const reference::Batch batch = network.feed(1);
  network.micro_step();
  const auto params = network.parameters(), gradients = network.gradients();
  reference::Parameters<std::complex<double>> point;
  for (const auto& p : params) point.emplace_back(p.begin(), p.end());
  const auto mean_loss = [&] {
    const std::vector<std::complex<double>> x(batch.images.begin(), batch.images.end());
    const auto z = reference::linear(kN, 3072, 10, x, point[0], point[1]);
    std::complex<double> mean = 0;
    for (int64_t i = 0; i < kN; ++i)
      mean += reference::softmax_cross_entropy(
                  std::vector<std::complex<double>>(z.begin() + 10 * i, z.begin() + 10 * (i + 1)),
                  batch.labels[static_cast<size_t>(i)], 0) /
              static_cast<double>(kN);
    return mean;
  };
  EXPECT_NEAR(network.loss(), mean_loss().real(), 8 * kEps * mean_loss().real());
  for (size_t i = 0; i < params.size(); ++i)
    for (size_t j = 0; j < params[i].size(); j += 1 + params[i].size() / 97) {
      const auto kept = point[i][j];
      point[i][j] += std::complex<double>(0, reference::kComplexStep);
      // Logits are sums of 3,073 terms: their rounding is the gradient's.
      EXPECT_NEAR(gradients[i][j], mean_loss().imag() / reference::kComplexStep, (4 + 2 * std::sqrt(3073)) * kEps);
      point[i][j] = kept;
    }
}

TEST(Network, CnnEqualsItsPlainForm) {
  Network fused("cnn", 4, kSgd, 0.01), plain("cnn_plain", 4, kSgd, 0.01);
  ASSERT_EQ(fused.parameters(), plain.parameters());
  constexpr int kSteps = 20;
  for (int step = 0; step < kSteps; ++step) {
    fused.feed(static_cast<uint64_t>(step));
    plain.feed(static_cast<uint64_t>(step));
    const double a = fused.step(), b = plain.step();
    // A step's gradient is off by the roundings of sums of up to 4*28*28 terms, and steps add up.
    ASSERT_NEAR(a, b, (step + 1) * (4 + 2 * std::sqrt(4.0 * 28 * 28)) * kEps * b) << "step " << step;
  }
  EXPECT_NE(fused.parameters(), Network("cnn", 4, kSgd, 0).parameters());
}

TEST(Initialize, DrawsWithinPyTorchsBoundsAndBySeed) {
  const auto weights = [](uint64_t seed) { return Network("cnn", 1, kSgd, 0, seed).parameters(); };
  const auto a = weights(1);
  EXPECT_EQ(a, weights(1));
  EXPECT_NE(a, weights(2));
  const double fan_in[] = {75, 75, 150, 150, 400, 400, 120, 120, 84, 84};
  for (size_t i = 0; i < a.size(); ++i) {
    double largest = 0;
    for (const double w : a[i]) largest = std::max(largest, std::abs(w));
    EXPECT_LE(largest, 1 / std::sqrt(fan_in[i]) * (1 + kEps));
    EXPECT_GT(largest, 0.5 / std::sqrt(fan_in[i]));
  }
}

TEST(Models, AreFoundByName) {
  for (const std::string_view name : model_names()) EXPECT_TRUE(find_model(name)) << name;
  try {
    find_model("resnet");
    FAIL();
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find("cnn_plain"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace ct
