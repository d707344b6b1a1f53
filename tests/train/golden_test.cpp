// Training against loss trajectories in double precision that lie in golden_losses.txt.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iomanip>
#include <iostream>

#include "comm/host/threads.h"
#include "data/synthetic/synthetic.h"
#include "model/models.h"
#include "reference/cnn.h"
#include "train/setup.h"
#include "train/weights.h"

namespace ct {
namespace {

constexpr int kSteps = 50, kBatch = 4;
constexpr uint64_t kSeeds[] = {1, 2};

struct Recipe {
  const char* name;
  UpdateRule rule;
};
const Recipe kRecipes[] = {{"SGD, lr 1e-3, momentum 0.9", {.optimizer = optim::Sgd{.momentum = 0.9}}},
                           {"AdamW, lr 1e-3, betas 0.8 0.999, eps 1e-8, weight decay 3e-7",
                            {.optimizer = optim::AdamW{.betas = {0.8, 0.999}, .weight_decay = 3e-7}}}};

/// By recipe and, within it, by seed.
constexpr double kGolden[][kSteps] = {
#include "train/golden_losses.txt"
};
const double* golden(size_t recipe, size_t seed) { return kGolden[recipe * std::size(kSeeds) + seed]; }

/// The first images of the synthetic set, in order.
const std::vector<uint8_t>& records() {
  static const std::vector<uint8_t> bytes = synthetic_records(kSyntheticSeed, 0, kSteps * kBatch, 1);
  return bytes;
}
const uint8_t* record(int step, int i) { return records().data() + (step * kBatch + i) * 3073; }

reference::Batch reference_batch(int step) {
  reference::Batch batch;
  for (int i = 0; i < kBatch; ++i) {
    const uint8_t* r = record(step, i);
    batch.labels.push_back(r[0]);
    for (int j = 1; j < 3073; ++j) batch.images.push_back((r[j] / 255.0 - 0.5) / 0.5);
  }
  return batch;
}

/// The program's training of the tutorial network from a seed's initial weights.
class Training {
 public:
  Training(const Recipe& recipe, uint64_t seed) : backend_(make_cpu_backend()), comm_(make_solo()) {
    backend_->enter_thread();
    graph_ = build_graph(cnn, input_spec(Config(), kBatch, {{3, 32, 32}, 10}, Mode::train));
    engine_ =
        std::make_unique<Engine>(*backend_, *comm_, lower_training(graph_, recipe.rule, {}), [&recipe](int64_t step) {
          return optim::schedule_row(optim::Constant(), recipe.rule.optimizer, step);  // lr 1e-3, the default
        });
    initialize(*engine_, graph_, seed);
  }
  reference::Parameters<double> parameters() const {
    reference::Parameters<double> all;
    const StateBuffer weights = engine_->state().front();
    for (size_t i = 0; i < graph_.parameters().size(); ++i) {
      const Layout& layout = graph_.parameters()[i].layout;
      std::vector<float> values(static_cast<size_t>(layout.numel()));
      layout.to_torch(weights(flat().parameters[i]), values);
      all.emplace_back(values.begin(), values.end());
    }
    return all;
  }
  double step(int number) {
    const Inputs in = engine_->inputs();
    for (int i = 0; i < kBatch; ++i) {
      in.labels[i] = record(number, i)[0];
      std::memcpy(in.images.data() + i * 3072, record(number, i) + 1, 3072);
    }
    engine_->micro_step();
    engine_->update();
    return engine_->drain_losses().front() / kBatch;
  }

 private:
  const FlatLayout& flat() const { return engine_->lowered().flat; }
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> comm_;
  Graph graph_;
  std::unique_ptr<Engine> engine_;
};

class Golden : public testing::TestWithParam<std::tuple<size_t, size_t>> {
 protected:
  size_t recipe() const { return std::get<0>(GetParam()); }
  size_t seed() const { return std::get<1>(GetParam()); }
};

TEST_P(Golden, TrainingFollowsTheTrajectory) {
  Training training(kRecipes[recipe()], kSeeds[seed()]);
  for (int step = 0; step < kSteps; ++step) {
    const double expected = golden(recipe(), seed())[step];
    EXPECT_NEAR(training.step(step), expected, 1e-5 * expected) << "step " << step;
  }
}

/// The file is what the reference says: the whole of it is 50 steps, of which a few are enough here.
TEST_P(Golden, FileIsTheReferences) {
  const Training training(kRecipes[recipe()], kSeeds[seed()]);
  const auto losses = train_cnn(training.parameters(), reference_batch, 5, kRecipes[recipe()].rule.optimizer);
  for (size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(losses[step], golden(recipe(), seed())[step], 1e-12) << "step " << step;
}

INSTANTIATE_TEST_SUITE_P(Recipes, Golden,
                         testing::Combine(testing::Range(size_t{0}, std::size(kRecipes)),
                                          testing::Range(size_t{0}, std::size(kSeeds))));

/// Prints golden_losses.txt without its heading.
TEST(GoldenFile, DISABLED_Print) {
  std::cout << std::setprecision(17);
  for (const Recipe& recipe : kRecipes)
    for (const uint64_t seed : kSeeds) {
      const auto losses =
          train_cnn(Training(recipe, seed).parameters(), reference_batch, kSteps, recipe.rule.optimizer);
      std::cout << "// " << recipe.name << ", seed " << seed << "\n{";
      for (size_t i = 0; i < losses.size(); ++i)
        std::cout << losses[i] << (i + 1 == losses.size() ? "},\n" : i % 5 == 4 ? ",\n " : ", ");
    }
}

}  // namespace
}  // namespace ct
