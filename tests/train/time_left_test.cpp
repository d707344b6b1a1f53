#include "train/time_left.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

/// A run of 100 steps, evaluated every 10.
constexpr TimeLeft::Plan kPlan{.total_steps = 100, .interval = 10, .evaluation_steps = 2};

TEST(TimeLeft, StepsAndGuessedEvaluations) {
  TimeLeft left(kPlan);
  left.after_step(1, 5, 1);  // a slow start and the first save, which come once
  EXPECT_EQ(left.seconds(), std::nullopt);
  for (int64_t step = 2; step <= 6; ++step) left.after_step(step, static_cast<double>(step) + 4, 1);
  EXPECT_DOUBLE_EQ(left.seconds().value(), 94 + 10 * 2);
}

TEST(TimeLeft, EvaluationsTakeAsLongAsThoseSoFar) {
  TimeLeft left(kPlan);
  for (int64_t step = 1; step <= 20; ++step) {
    left.after_step(step, static_cast<double>(step), 7 + 4.0 * static_cast<double>((step - 1) / 10));
    if (step == 10) left.after_evaluation(7 + 4);
  }
  EXPECT_DOUBLE_EQ(left.seconds().value(), 80 + 9 * 4);
  EXPECT_DOUBLE_EQ(left.seconds(/*evaluating=*/3).value(), 80 + 9 * 4 - 3);
  EXPECT_DOUBLE_EQ(left.seconds(/*evaluating=*/30).value(), 80 + 8 * 4);
  left.after_evaluation(7 + 4 + 4);
  EXPECT_DOUBLE_EQ(left.seconds().value(), 80 + 8 * 4);
}

TEST(TimeLeft, TheChosenWeightsAreEvaluatedOnceMore) {
  TimeLeft left({.total_steps = 100, .interval = 10, .evaluation_steps = 2, .closing = 2.5});
  for (int64_t step = 1; step <= 6; ++step) left.after_step(step, static_cast<double>(step), 0);
  EXPECT_DOUBLE_EQ(left.seconds().value(), 94 + 10 * 2 + 2.5 * 2);
}

TEST(TimeLeft, OldStepsAreForgotten) {
  TimeLeft left({.total_steps = 4000, .interval = 4000});
  double trained = 0;
  for (int64_t step = 1; step <= 500; ++step) left.after_step(step, trained += step <= 100 ? 10 : 1, 0);
  EXPECT_GT(left.seconds().value(), 5000);  // the slow ones are a part of the latest half
  for (int64_t step = 501; step <= 3500; ++step) left.after_step(step, trained += 1, 0);
  EXPECT_DOUBLE_EQ(left.seconds().value(), 500);
}

TEST(TimeLeft, AResumedRunAndALastEvaluationOutOfTurn) {
  TimeLeft left({.first_step = 20, .total_steps = 45, .interval = 10, .evaluation_steps = 0.5});
  for (int64_t step = 21; step <= 25; ++step) left.after_step(step, 2.0 * static_cast<double>(step - 20), 0);
  EXPECT_DOUBLE_EQ(left.seconds().value(), 20 * 2 + 3 * 1);  // at 30, 40 and 45
  for (int i = 0; i < 3; ++i) left.after_evaluation(0);
  left.after_step(45, 50, 0);
  EXPECT_DOUBLE_EQ(left.seconds().value(), 0);
}

}  // namespace
}  // namespace ct
