#include "metrics/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

namespace ct {
namespace {

TEST(Probabilities, AreASoftmax) {
  const std::vector<float> logits = {1, 3, -2};
  const double sum = std::exp(-2) + 1 + std::exp(-5);
  EXPECT_DOUBLE_EQ(probabilities(logits)[0], std::exp(-2) / sum);
  EXPECT_DOUBLE_EQ(probabilities(logits, 1e9)[0], 1 / (1 + std::exp(2e-9) + std::exp(-3e-9)));
  EXPECT_EQ(probabilities(std::vector<float>{3e38F, -3e38F})[0], 1);
  EXPECT_DOUBLE_EQ(loss_at(logits, 2, 1), -std::log(std::exp(-5) / sum));
  EXPECT_DOUBLE_EQ(loss_at(logits, 2, 0.001), 5000);  // its probability is no number above 0
}

TEST(AnswerIn, IsTheFirstLargest) {
  EXPECT_EQ(answer_in(std::vector<float>{1, 2, 2}), 1);
  EXPECT_EQ(answer_in(std::vector<float>{0}), 0);
}

TEST(CalibrationError, OfBins) {
  CalibrationError error;
  EXPECT_EQ(error.value(), 0);
  error.add(1, true);  // the last bin
  EXPECT_EQ(error.value(), 0);
  error.add(0.95, false);  // the same bin: |1 - 1.95|
  EXPECT_DOUBLE_EQ(error.value(), 0.95 / 2);
  error.add(0.2, true);  // the upper end belongs to the third bin
  error.add(0.19, false);
  EXPECT_DOUBLE_EQ(error.value(), (0.95 + (1 - 0.39)) / 4);
  error.add(0.21, false);  // the fourth
  EXPECT_DOUBLE_EQ(error.value(), (0.95 + (1 - 0.39) + 0.21) / 5);
}

/// Of two classes whose logits differ by `distance`, `right` images of `all` are of the first one: the loss is lowest
/// where its probability is their share.
TEST(FitTemperature, OfTwoClassesIsKnown) {
  for (const auto& [right, all, distance] : {std::tuple{3, 4, 5.0F}, {9, 10, 0.3F}, {51, 100, 2.0F}}) {
    LabelledLogits images;
    for (int i = 0; i < all; ++i) {
      images.logits.insert(images.logits.end(), {100 + distance, 100});
      images.labels.push_back(i < right ? 0 : 1);
    }
    const double odds = static_cast<double>(right) / (all - right);
    const double difference = static_cast<double>(images.logits[0]) - 100;
    EXPECT_NEAR(fit_temperature(images) / (difference / std::log(odds)), 1, 1e-9) << distance;
  }
}

TEST(FitTemperature, HasLimits) {
  EXPECT_EQ(fit_temperature({.logits = {2, 1, 1, 2}, .labels = {0, 1}}), kColdest);  // all right
  EXPECT_EQ(fit_temperature({.logits = {2, 1, 1, 2}, .labels = {1, 0}}), kHottest);  // all wrong
  EXPECT_EQ(fit_temperature({.logits = {1, 1}, .labels = {0}}), kHottest);           // says nothing
  const float lowest = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isfinite(fit_temperature({.logits = {2, 1, lowest, 1, 2, lowest}, .labels = {0, 0}})));
}

}  // namespace
}  // namespace ct
