#include "reference/loss_scale.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace ct {
namespace {

constexpr double kTwo15 = 32768;

/// Feeds one step per letter: 'o' overflows, '.' does not.
std::vector<LossScaleStep> run(const LossScaleOptions& options, const std::string& steps) {
  std::vector<LossScaleStep> trace;
  LossScaleState state = initial_loss_scale(options);
  for (const char c : steps) {
    trace.push_back(next_loss_scale(options, state, c == 'o'));
    state = trace.back().state;
  }
  return trace;
}

struct Point {
  double scale;
  int64_t hysteresis;
  bool operator==(const Point&) const = default;
};
void PrintTo(const Point& p, std::ostream* out) { *out << p.scale << "/" << p.hysteresis; }

std::vector<Point> points(const std::vector<LossScaleStep>& trace) {
  std::vector<Point> result;
  for (const LossScaleStep& step : trace) result.push_back({step.state.scale, step.state.hysteresis_left});
  return result;
}

struct Change {
  int64_t step;
  double scale;
  bool operator==(const Change&) const = default;
};
void PrintTo(const Change& c, std::ostream* out) { *out << c.step << ":" << c.scale; }

/// The steps after which the scale was another.
std::vector<Change> changes(const LossScaleOptions& options, const std::string& steps) {
  std::vector<Change> result;
  double scale = options.initial;
  for (const LossScaleStep& step : run(options, steps)) {
    if (step.state.scale != scale) result.push_back({step.state.step - 1, step.state.scale});
    scale = step.state.scale;
  }
  return result;
}

const LossScaleOptions kWindow500{.initial = kTwo15, .window = 500};

// The numbers are DeepSpeed's own, recorded from its DynamicLossScaler (stages 1 to 3) and FP16_Optimizer (stage 0).

TEST(LossScale, DefaultsAreTwoTo16WithHysteresisTwo) {
  EXPECT_EQ(points(run({}, "oo.")), (std::vector<Point>{{65536, 1}, {32768, 1}, {32768, 1}}));
  EXPECT_EQ(changes({}, std::string(2000, '.')), (std::vector<Change>{{999, 131072}, {1999, 262144}}));
}

TEST(LossScale, OverflowsLowerItAndAWindowRestoresHysteresis) {
  const std::string steps = "ooo" + std::string(1500, '.');
  const auto trace = run(kWindow500, steps);
  EXPECT_EQ(points({trace.begin(), trace.begin() + 3}), (std::vector<Point>{{32768, 1}, {16384, 1}, {8192, 1}}));
  EXPECT_EQ(changes(kWindow500, steps),
            (std::vector<Change>{{1, 16384}, {2, 8192}, {502, 16384}, {1002, 32768}, {1502, 65536}}));
  EXPECT_EQ(trace[501].state.hysteresis_left, 1);
  EXPECT_EQ(trace[502].state.hysteresis_left, 2);
}

TEST(LossScale, WithoutOverflowItDoublesEveryWindow) {
  EXPECT_EQ(changes(kWindow500, std::string(1998, '.')),
            (std::vector<Change>{{499, 65536}, {999, 131072}, {1499, 262144}}));
}

TEST(LossScale, ConsecutiveHysteresisForgivesAfterACleanStep) {
  LossScaleOptions options = kWindow500;
  options.consecutive_hysteresis = true;
  EXPECT_EQ(points(run(options, "o.o.oo")),
            (std::vector<Point>{{32768, 1}, {32768, 2}, {32768, 1}, {32768, 2}, {32768, 1}, {16384, 1}}));
  options.consecutive_hysteresis = false;
  EXPECT_EQ(points(run(options, "o.o.oo")),
            (std::vector<Point>{{32768, 1}, {32768, 1}, {16384, 1}, {16384, 1}, {8192, 1}, {4096, 1}}));
}

TEST(LossScale, AnOverflowAtTheMinimumIsDivergence) {
  const auto trace = run({.initial = 4, .min = 3, .hysteresis = 2}, "ooo");
  EXPECT_EQ(points(trace), (std::vector<Point>{{4, 1}, {3, 1}, {3, 1}}));
  const auto change = [&](size_t i) { return trace[i].change; };
  EXPECT_EQ(change(0), LossScaleChange::endured);
  EXPECT_EQ(change(1), LossScaleChange::lowered);
  EXPECT_EQ(change(2), LossScaleChange::diverged);
  for (const LossScaleStep& step : trace) EXPECT_TRUE(step.skip);
}

TEST(LossScale, GradientsAreDividedByTheScaleTheyWereMadeWith) {
  const auto trace = run({.initial = 8, .window = 2}, "..o");
  EXPECT_EQ(trace[1].change, LossScaleChange::doubled);
  EXPECT_EQ(trace[1].state.scale, 16);
  EXPECT_EQ(trace[1].unscale, 8);
  EXPECT_FALSE(trace[1].skip);
  EXPECT_TRUE(trace[2].skip);
}

TEST(LossScale, AStaticScaleSkipsButStays) {
  const auto trace = run({.dynamic = false, .initial = 128, .window = 1}, ".o.ooo");
  for (const LossScaleStep& step : trace) {
    EXPECT_EQ(step.state.scale, 128);
    EXPECT_EQ(step.unscale, 128);
    EXPECT_EQ(step.change, LossScaleChange::none);
  }
  EXPECT_FALSE(trace[0].skip);
  EXPECT_TRUE(trace[1].skip);
}

TEST(SeedLossScale, WithoutDynamicKeysZeroStartsAtTwoTo32) {
  for (const int stage : {1, 2, 3}) {
    const LossScaleOptions options = seed_loss_scale({}, stage, /*has_dynamic_keys=*/false);
    EXPECT_EQ(points(run(options, "ooo")), (std::vector<Point>{{2147483648, 1}, {1073741824, 1}, {536870912, 1}}));
  }
  EXPECT_EQ(seed_loss_scale({}, 1, /*has_dynamic_keys=*/true).initial, 65536);
  EXPECT_EQ(seed_loss_scale({.dynamic = false, .initial = 128}, 1, /*has_dynamic_keys=*/false).initial, 128);
  EXPECT_EQ(seed_loss_scale({}, 0, /*has_dynamic_keys=*/false).initial, 65536);
}

TEST(SeedLossScale, Stage0IgnoresHysteresisAndCountsOneStepMore) {
  const LossScaleOptions options = seed_loss_scale(kWindow500, 0, /*has_dynamic_keys=*/true);
  EXPECT_EQ(changes(options, std::string(1999, '.')),
            (std::vector<Change>{{500, 65536}, {1000, 131072}, {1500, 262144}}));
  EXPECT_EQ(changes(options, "ooo" + std::string(1501, '.')),
            (std::vector<Change>{{0, 16384}, {1, 8192}, {2, 4096}, {503, 8192}, {1003, 16384}, {1503, 32768}}));
}

TEST(SeedLossScale, Stage0NeverGivesUp) {
  const auto trace = run(seed_loss_scale({.initial = 2}, 0, /*has_dynamic_keys=*/true), "ooo");
  for (const LossScaleStep& step : trace) {
    EXPECT_EQ(step.change, LossScaleChange::lowered);
    EXPECT_EQ(step.state.scale, 1);
  }
}

TEST(SeedLossScale, AGrowthStepIsDividedByTheNewScale) {
  const auto trace = run(seed_loss_scale({.initial = 8, .window = 2}, 1, /*has_dynamic_keys=*/true), "..");
  EXPECT_EQ(trace[0].unscale, 8);
  EXPECT_EQ(trace[1].unscale, 16);
}

}  // namespace
}  // namespace ct
