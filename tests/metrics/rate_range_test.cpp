#include "metrics/rate_range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ct {
namespace {

/// Flat, then falling most steeply at 1e-3, lowest at 1e-2, then rising.
std::vector<RatePoint> curve() {
  std::vector<RatePoint> points;
  for (int i = 0; i <= 60; ++i) {
    const double power = -6 + 0.1 * i;  // of ten
    points.push_back({std::pow(10, power), 2 - std::tanh(2 * (power + 3)) + std::max(0.0, 3 * (power + 2))});
  }
  return points;
}

TEST(RateRange, NamesTheSteepestAndTheLowest) {
  const auto found = suggest_rate(curve());
  ASSERT_TRUE(found);
  EXPECT_NEAR(std::log10(found->steepest), -3, 0.06);
  EXPECT_NEAR(std::log10(found->lowest), -2, 0.11);
  EXPECT_EQ(found->rate, std::min(found->steepest, found->lowest / 10));
}

TEST(RateRange, NamesNothingWhereTheLossNeverFalls) {
  std::vector<RatePoint> rising = curve();
  for (size_t i = 0; i < rising.size(); ++i) rising[i].loss = static_cast<double>(i);
  EXPECT_FALSE(suggest_rate(rising));
  EXPECT_FALSE(suggest_rate({}));
  for (RatePoint& point : rising) point.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(suggest_rate(rising));
}

TEST(RateRange, NoiseIsNoFall) {
  std::vector<RatePoint> noisy = curve();
  for (size_t i = 0; i < noisy.size(); ++i) noisy[i].loss = 2 + (i * 7919 % 13) / 13.0;
  EXPECT_FALSE(suggest_rate(noisy));
}

TEST(RateRange, ARateBelowTheFirstIsNotNamed) {
  std::vector<RatePoint> early;  // lowest soon after the first rates
  for (int i = 0; i <= 60; ++i)
    early.push_back({std::pow(10, -6 + 0.02 * i), i < 15 ? 2 : i < 30 ? 2 - 0.1 * (i - 14) : 3});
  const auto found = suggest_rate(early);
  ASSERT_TRUE(found);
  EXPECT_GE(found->rate, 1e-6);
  EXPECT_FALSE(picture(early, 1e-7).empty());
}

TEST(RateRange, TheAverageIsCorrectedForItsStart) {
  const std::vector<RatePoint> flat(30, {1, 2.5});
  for (const RatePoint& point : smoothed(flat, 30)) EXPECT_NEAR(point.loss, 2.5, 1e-12);
}

TEST(RateRange, DivergenceIsFourTimesTheLowestOrNoNumber) {
  EXPECT_FALSE(has_diverged({}));
  const std::vector<RatePoint> points = {{1, 2}, {2, 1}, {3, 4.5}, {4, std::nan("")}};
  EXPECT_FALSE(has_diverged(std::span(points).first(2)));
  EXPECT_TRUE(has_diverged(std::span(points).first(3)));
  EXPECT_TRUE(has_diverged(points));
}

TEST(RateRange, ThePictureFitsATerminal) {
  const std::vector<std::string> lines = picture(curve(), 1e-3);
  ASSERT_EQ(lines.size(), 16u);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_EQ(lines.front().substr(0, 11), " 3.000 | **");
  EXPECT_EQ(lines[14].find('^'), 9u + 32);  // the middle of the scale
  EXPECT_NE(lines.back().find("1e-06"), std::string::npos);
  EXPECT_TRUE(picture({}, {}).empty());
}

}  // namespace
}  // namespace ct
