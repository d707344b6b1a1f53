#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ct {
namespace {

// DeepSpeed's own values: optimizer step (from 1) and the rate it uses.
struct Golden {
  int64_t step;
  double lr;
};

TEST(WarmupLr, LogarithmicGolden) {
  const LrSchedule s = WarmupLr{};
  for (const Golden& g : {Golden{1, 0},
                          {2, 0},
                          {3, 0.00010034333188799373},
                          {4, 0.0001590404182398875},
                          {11, 0.0003333333333333334},
                          {101, 0.0006666666666666668},
                          {1000, 0.0009998551627419942},
                          {1001, 0.001},
                          {1002, 0.001},
                          {1101, 0.001}})
    EXPECT_EQ(learning_rate(s, g.step - 1), g.lr) << g.step;
}

TEST(WarmupLr, LinearGolden) {
  const LrSchedule s = WarmupLr{.type = WarmupType::linear};
  for (const Golden& g : {Golden{1, 0}, {2, 0}, {3, 1e-6}, {501, 0.000499}, {1001, 0.000999}, {1002, 0.001}})
    EXPECT_EQ(learning_rate(s, g.step - 1), g.lr) << g.step;
}

TEST(WarmupLr, FewerThanTwoStepsCountAsTwo) {
  const LrSchedule s = WarmupLr{.steps = 0};
  EXPECT_EQ(learning_rate(s, 1), 0);
  EXPECT_TRUE(std::isfinite(learning_rate(s, 2)));
  EXPECT_EQ(learning_rate(s, 3), 1e-3);
}

TEST(Schedule, BiasCorrectionsInDouble) {
  const UpdateRule rule{.optimizer = AdamRule{.beta1 = 0.8, .beta2 = 0.999}};
  const ScheduleRow row = schedule_row(ConstantLr{0.5}, rule, 0);
  EXPECT_EQ(row.lr, 0.5);
  EXPECT_DOUBLE_EQ(row.bias_correction1, 0.2);
  EXPECT_DOUBLE_EQ(row.bias_correction2, 0.001);
  EXPECT_EQ(schedule_row(ConstantLr{0.5}, {.optimizer = SgdRule{}}, 7).bias_correction1, 1);
}

}  // namespace
}  // namespace ct
