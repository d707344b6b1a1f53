#include "cli/report/curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ct::report {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

std::vector<Point> wave(size_t count) {
  std::vector<Point> points;
  for (size_t i = 0; i < count; ++i) points.push_back({static_cast<double>(i), std::sin(static_cast<double>(i * i))});
  return points;
}

TEST(Thinned, KeepsFewPointsAsTheyAre) { EXPECT_EQ(thinned(wave(40), 10), wave(40)); }

TEST(Thinned, KeepsTheEndsAndTheExtremesOfEachSpan) {
  std::vector<Point> points = wave(100000);
  points[34567].y = 50;
  points[34568].y = -50;
  const std::vector<Point> kept = thinned(points, 100);
  EXPECT_LE(kept.size(), 400U);
  EXPECT_EQ(kept.front(), points.front());
  EXPECT_EQ(kept.back(), points.back());
  EXPECT_NE(std::ranges::find(kept, 50.0, &Point::y), kept.end());
  EXPECT_NE(std::ranges::find(kept, -50.0, &Point::y), kept.end());
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &Point::x));
}

TEST(Thinned, KeepsWideGaps) {
  std::vector<Point> points = wave(1000);
  for (size_t i = 300; i < 500; ++i) points[i].y = kGap;
  const std::vector<Point> kept = thinned(points, 20);
  const auto gap = std::ranges::find_if(kept, [](const Point& p) { return std::isnan(p.y); });
  ASSERT_NE(gap, kept.end());
  EXPECT_GE(gap->x, 300);
  EXPECT_LT(gap->x, 500);
}

TEST(Thinned, TakesPointsInOnePlace) { EXPECT_LE(thinned(std::vector<Point>(1000, Point{7, 1}), 10).size(), 4U); }

TEST(Smoothed, IsTheMeanOfNeighbours) {
  std::vector<Point> points;
  for (int i = 0; i < 300; ++i) points.push_back({static_cast<double>(i), i % 2 == 0 ? 0.0 : 2.0});
  const std::vector<Point> smooth = smoothed(points);
  ASSERT_EQ(smooth.size(), points.size());
  for (const Point& point : smooth) EXPECT_NEAR(point.y, 1, 0.15);
  points[5].y = kGap;
  EXPECT_EQ(smoothed(points).size(), points.size() - 1);
  EXPECT_TRUE(smoothed({}).empty());
}

TEST(Axis, HasRoundTicksWithinItsRange) {
  EXPECT_EQ(exact_axis({0, 10000}, 4).ticks, (std::vector<double>{0, 2000, 4000, 6000, 8000, 10000}));
  const Axis axis = axis_for({0.1, 0.9}, false, 4);
  EXPECT_EQ(axis.place(axis.range.low), 0);
  EXPECT_EQ(axis.place(axis.range.high), 1);
  EXPECT_LT(axis.range.low, 0.1);
  EXPECT_GT(axis.range.high, 0.9);
}

TEST(Axis, IsLogarithmicIfAskedForAndAllArePositive) {
  const Axis axis = axis_for({1e-3, 1e3}, true, 4);
  EXPECT_TRUE(axis.logarithmic);
  EXPECT_NEAR(axis.place(1), 0.5, 1e-9);
  EXPECT_FALSE(axis.ticks.empty());
  EXPECT_FALSE(axis_for({1e-3, 1e3}, false, 4).logarithmic);
  EXPECT_FALSE(axis_for({-1, 1e3}, true, 4).logarithmic);
  EXPECT_TRUE(are_far_apart({0.01, 1}));
  EXPECT_FALSE(are_far_apart({0.1, 1}));
  EXPECT_FALSE(are_far_apart({0, 1}));
}

TEST(Axis, LogarithmicTicksOfFewPowersHaveOthersBetween) {
  EXPECT_EQ(axis_for({0.03, 3.6}, true, 5).ticks, (std::vector<double>{0.05, 0.1, 0.2, 0.5, 1, 2}));
  EXPECT_GE(axis_for({0.11, 9}, true, 2).ticks.size(), 3U);
}

TEST(Axis, HasAtLeastTwoTicks) {
  for (int i = 1; i < 200; ++i) EXPECT_GE(axis_for({0.01 * i, 0.023 * i}, false, 2).ticks.size(), 2U) << i;
}

TEST(Axis, TakesAnyNumbers) {
  for (const Range range : {Range{0, 0}, Range{5, 5}, Range{-1e100, 1e100}, Range{0, 1e-100}, Range{1e-100, 1e100}}) {
    const Axis axis = axis_for(range, true, 4);
    EXPECT_LE(axis.ticks.size(), 60U);
    EXPECT_GE(axis.place(range.low), 0);
    EXPECT_LE(axis.place(range.high), 1);
  }
}

TEST(Numbers, AreShort) {
  EXPECT_EQ(tick_text(25000), "25,000");
  EXPECT_EQ(tick_text(2.5e6), "2.5 M");
  EXPECT_EQ(tick_text(0.001), "0.001");
  EXPECT_EQ(tick_text(1e-5), "1e-05");
  EXPECT_EQ(count_text(-1234567), "-1,234,567");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(number_text(0.123456), "0.1235");
  EXPECT_EQ(number_text(kGap), "not finite");
}

}  // namespace
}  // namespace ct::report
