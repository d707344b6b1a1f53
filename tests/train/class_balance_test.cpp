#include "train/class_balance.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "train/config/load.h"
#include "train/config/schema.h"

namespace ct {
namespace {

const std::vector<std::string> kNames = {"cat", "dog", "eel"};

Config with(const std::string& rest) {
  return load_config_text("train_batch_size: 4\noptimizer: {type: SGD, params: {lr: 0.1}}\n" + rest, "test.yaml");
}

void expect_refused(const std::string& rest, const std::vector<int64_t>& counts, const std::string& text) {
  try {
    class_weights(with(rest), kNames, counts);
    ADD_FAILURE() << rest;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(ClassBalance, AutoIsInverselyProportionalToTheCounts) {
  const std::vector<int64_t> counts = {6, 3, 0};
  EXPECT_EQ(class_weights(with("train: {class_weights: auto}"), kNames, counts),
            (std::vector<float>{0.75f, 1.5f, 0}));  // N / (K n_c) of two classes
  EXPECT_TRUE(class_weights(with(""), kNames, counts).empty());
}

TEST(ClassBalance, GivenWeightsHaveMeanOneOverTheImages) {
  const std::vector<int64_t> counts = {6, 3, 1};
  const std::vector<float> weights = class_weights(with("train: {class_weights: {dog: 3, eel: 5}}"), kNames, counts);
  EXPECT_EQ(weights, (std::vector<float>{0.5f, 1.5f, 2.5f}));
  EXPECT_EQ(text_of_key(with("train: {class_weights: {eel: 5, dog: 3}}"), "train.class_weights", ""),
            "{dog: 3, eel: 5}");
}

TEST(ClassBalance, WrongWeightsAreRefused) {
  const std::vector<int64_t> counts = {6, 3, 0};
  expect_refused("train: {class_weights: {dgo: 3}}", counts,
                 "test.yaml:3:24: train.class_weights: no class is called 'dgo'; did you mean dog?");
  expect_refused("train: {class_weights: {wolverine: 3}}", counts, "; the classes are cat, dog, eel");
  expect_refused("train: {class_weights: {cat: 0, dog: 0}}", counts, "no image that counts");
  EXPECT_THROW(with("train: {class_weights: {cat: -1}}"), Error);
  EXPECT_THROW(with("train: {class_weights: {cat: heavy}}"), Error);
  EXPECT_THROW(with("train: {class_weights: 3}"), Error);
}

TEST(ClassBalance, ImbalanceIsToldUnlessItIsMended) {
  const std::vector<int64_t> uneven = {51, 10, 30}, even = {50, 10, 30};
  EXPECT_EQ(imbalance(with(""), kNames, even), "");
  EXPECT_EQ(imbalance(with(""), kNames, uneven).substr(0, 67),
            "classes have very different numbers of training images: cat 51, dog");
  EXPECT_EQ(imbalance(with("train: {class_weights: auto}"), kNames, uneven), "");
  EXPECT_EQ(imbalance(with("data: {sampler: balanced}"), kNames, uneven), "");
}

TEST(ClassBalance, ClassesBelowHalfOfChanceAreNamed) {
  Evaluation evaluation{.split = "val", .classes = {{300, 49}, {300, 50}, {20, 0}}};  // chance: 100, 100, 6.7
  EXPECT_EQ(weak_classes(evaluation, kNames), "below half of chance on the val images: cat 49 of 300");
  evaluation.classes[0].correct = 50;
  EXPECT_EQ(weak_classes(evaluation, kNames), "");
}

}  // namespace
}  // namespace ct
