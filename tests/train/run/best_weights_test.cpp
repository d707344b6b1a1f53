#include "train/run/best_weights.h"

#include <gtest/gtest.h>

#include "base/faulty_file_system.h"
#include "base/temporary_folder.h"
#include "checkpoint/samples.h"
#include "checkpoint/store.h"
#include "train/weights.h"

namespace ct {
namespace {

class BestWeightsTest : public testing::Test {
 protected:
  BestWeightsTest() {
    config_.train.best = {.split = BestSplit::test, .metric = Metric::accuracy};
    make_folders(files_, ckpt_);
  }
  /// A whole file of best weights.
  void put(const Path& path, int64_t step, double value, const std::string& model = "cnn", int64_t seed = 42) {
    Metadata metadata = to_metadata(
        {.model = {.name = model}, .mean = {0.5}, .std = {0.25}, .step = step, .seed = seed, .eval_batch = 250});
    metadata.merge(selection_metadata(config_, value));
    write_safetensors(files_, path, samples_.views(), metadata);
  }
  void cut(const Path& path) { std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1); }
  int64_t step_of_best() { return info_of(SafetensorsFile(best_)).step; }
  BestEvaluation return_to(const RunState& state) { return weights_.return_to(ckpt_ / step_name(state.step), state); }

  TemporaryFolder folder_;
  QuickFileSystem files_;
  Config config_;
  Samples samples_;
  Path ckpt_ = folder_ / "ckpt", best_ = folder_ / "best.bin", kept_ = ckpt_ / saved_best_name(20);
  std::vector<std::string> said_;
  BestWeights weights_{files_, folder_.path(), config_, [this](const std::string& line) { said_.push_back(line); }};
  const RunState at_20_{.step = 20, .best_step = 10, .best_value = 0.5};
};

TEST_F(BestWeightsTest, GoesBackFromALaterEvaluation) {
  put(kept_, 10, 0.5);
  put(best_, 25, 0.9);
  const BestEvaluation best = return_to(at_20_);
  EXPECT_EQ(best.step, 10);
  EXPECT_EQ(best.value, 0.5);
  EXPECT_EQ(step_of_best(), 10);
  EXPECT_TRUE(said_.empty());
  EXPECT_EQ(return_to({.step = 20}).step, -1) << "there was no best yet";
}

TEST_F(BestWeightsTest, TheBestOfTheRemainingFiles) {
  put(best_, 25, 0.9);                         // from after the checkpoint
  put(ckpt_ / saved_best_name(30), 15, 0.45);  // the best of these that count
  put(ckpt_ / saved_best_name(18), 5, 0.4);
  put(ckpt_ / saved_best_name(19), 8, 0.8, "linear");
  put(ckpt_ / saved_best_name(17), 7, 0.7);
  cut(ckpt_ / saved_best_name(17));
  const BestEvaluation best = return_to(at_20_);
  EXPECT_EQ(best.step, 15);
  EXPECT_EQ(best.value, 0.45);
  EXPECT_EQ(step_of_best(), 15);
  EXPECT_EQ(info_of(SafetensorsFile(kept_)).step, 15) << "returning again finds the same";
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find(kept_.native()), std::string::npos) << said_[0];
  // Chosen in another way, its value means nothing here.
  config_.train.best.metric = Metric::loss;
  EXPECT_EQ(return_to(at_20_).step, -1);
  EXPECT_NE(said_[1].find("chosen again"), std::string::npos) << said_[1];
}

TEST_F(BestWeightsTest, OneOfAnotherSeedIsNotThisRuns) {
  put(kept_, 10, 0.5, "cnn", /*seed=*/43);
  put(best_, 10, 0.5);
  EXPECT_EQ(return_to(at_20_).step, 10);
  EXPECT_EQ(weights_.problem_unless_of(10, 10), "");
  put(best_, 10, 0.5, "cnn", /*seed=*/43);
  EXPECT_NE(weights_.problem_unless_of(10, 10).find("of a run of the seed 43"), std::string::npos);
}

TEST_F(BestWeightsTest, AnotherRunsBestIsTakenOnlyInNeed) {
  put(kept_, 10, 0.5);
  put(best_, 10, 0.5);
  TemporaryFolder other;
  BestWeights weights(files_, other.path(), config_, [this](const std::string& line) { said_.push_back(line); });
  for (const bool damaged : {false, true}) {
    if (damaged) cut(kept_);
    EXPECT_EQ(weights.return_to(ckpt_ / "step-00000020/", at_20_).step, 10);
    EXPECT_EQ(info_of(SafetensorsFile(other / "best.bin")).step, 10);
    EXPECT_EQ(said_.size(), damaged ? 1u : 0u);
    std::filesystem::remove(other / "best.bin");
  }
  EXPECT_ANY_THROW(SafetensorsFile{kept_}) << "nothing of another run is changed";
}

TEST_F(BestWeightsTest, LookedAfterWhileTraining) {
  put(best_, 10, 0.5);
  link_or_copy(files_, best_, kept_);
  const RunState now{.step = 30, .best_step = 10, .best_value = 0.5};
  EXPECT_EQ(weights_.look_after(now).step, 10);
  std::filesystem::remove(best_);
  EXPECT_EQ(weights_.look_after(now).step, 10);
  EXPECT_EQ(step_of_best(), 10);
  EXPECT_EQ(said_.size(), 1u);
  EXPECT_EQ(weights_.look_after(now).step, 10);
  EXPECT_EQ(said_.size(), 1u);
  cut(best_);  // and so its other name
  EXPECT_EQ(weights_.look_after(now).step, -1);
  EXPECT_EQ(said_.size(), 2u);
  EXPECT_NE(weights_.problem_unless_of(10, 30), "");
  put(best_, 30, 0.1);
  EXPECT_EQ(weights_.problem_unless_of(10, 30), "");
  EXPECT_NE(weights_.problem_unless_of(10, 20), "");
}

}  // namespace
}  // namespace ct
