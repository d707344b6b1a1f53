#include "train/model_selection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ct {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Judged on_test(double loss, double accuracy) { return {{loss, accuracy}, {loss, accuracy}}; }

struct Chosen {
  Config config;
  RunState state;
  bool holds_out = false;

  ModelSelection selection() { return {config, state, holds_out}; }
  /// After another step; true: it is the best, and was remembered.
  bool evaluate(const Judged& judged) {
    ++state.step;
    ModelSelection now = selection();
    const bool best = now.is_best(judged);
    if (best) now.remember(judged);
    return best;
  }
  bool out_of_patience(const Judged& judged) { return selection().out_of_patience(judged); }
};

TEST(ModelSelection, TakesTheHighestAccuracyAndTheNewestOfEquals) {
  Chosen run;
  run.config.train.best = {.split = BestSplit::test, .metric = Metric::accuracy};
  EXPECT_TRUE(run.evaluate(on_test(2, 0.1)));
  EXPECT_TRUE(run.evaluate(on_test(3, 0.2)));
  EXPECT_FALSE(run.evaluate(on_test(1, 0.1)));
  EXPECT_TRUE(run.evaluate(on_test(4, 0.2)));
  EXPECT_EQ(run.state.best_step, 4);
  EXPECT_EQ(run.state.best_value, 0.2);
}

TEST(ModelSelection, TakesTheLowestLoss) {
  Chosen run;
  run.config.train.best = {.split = BestSplit::test, .metric = Metric::loss};
  EXPECT_TRUE(run.evaluate(on_test(2, 0.1)));
  EXPECT_FALSE(run.evaluate(on_test(3, 0.9)));
  EXPECT_TRUE(run.evaluate(on_test(1, 0)));
  EXPECT_EQ(run.state.best_value, 1);
}

TEST(ModelSelection, TakesTheNewestWhereThatIsAsked) {
  Chosen run;
  run.config.train.best = {.split = BestSplit::last, .metric = Metric::accuracy};
  EXPECT_TRUE(run.evaluate(on_test(1, 0.9)));
  EXPECT_TRUE(run.evaluate(on_test(2, 0.1)));
  EXPECT_EQ(run.state.best_step, 2);
}

TEST(ModelSelection, LooksAtTheSplitThatWasNamed) {
  const Judged judged{.first = {1, 0.3}, .test = {2, 0.4}};
  Chosen run;
  run.holds_out = true;
  run.config.train.best = {.split = BestSplit::val, .metric = Metric::accuracy};
  EXPECT_EQ(run.selection().value(judged), 0.3);
  run.config.train.best.split = BestSplit::test;
  EXPECT_EQ(run.selection().value(judged), 0.4);
  run.config.train.best.split = BestSplit::last;
  EXPECT_EQ(run.selection().value(judged), 0.4);
}

TEST(ModelSelection, FiniteValuesAreBetterThanNonFiniteOnes) {
  Chosen run;
  run.config.train.best = {.split = BestSplit::test, .metric = Metric::accuracy};
  EXPECT_TRUE(run.evaluate(on_test(kNan, 0.9)));  // there is nothing else
  EXPECT_EQ(run.state.best_step, -1);
  EXPECT_TRUE(run.evaluate(on_test(2, 0.1)));
  EXPECT_EQ(run.state.best_step, 2);
  EXPECT_FALSE(run.evaluate(on_test(std::numeric_limits<double>::infinity(), 0.9)));
  run.config.train.best.split = BestSplit::last;
  EXPECT_FALSE(run.evaluate(on_test(kNan, 0.9)));
}

TEST(ModelSelection, PatienceCountsEvaluationsWithoutABetterOne) {
  Chosen run;
  run.config.train.early_stopping = {.patience = 2, .metric = Metric::loss};
  EXPECT_FALSE(run.out_of_patience(on_test(2, 0)));
  EXPECT_FALSE(run.out_of_patience(on_test(2, 0)));
  EXPECT_FALSE(run.out_of_patience(on_test(1, 0)));  // better: it begins anew
  EXPECT_FALSE(run.out_of_patience(on_test(kNan, 0)));
  EXPECT_EQ(run.state.patience_used, 1);
  EXPECT_TRUE(run.out_of_patience(on_test(3, 0)));
  EXPECT_EQ(run.state.patience_value, 1);
}

TEST(ModelSelection, PatienceIsEndlessUnlessGiven) {
  Chosen run;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(run.out_of_patience(on_test(2, 0)));
  EXPECT_EQ(run.state.patience_used, 4);  // for a run that takes it up when it goes on
}

}  // namespace
}  // namespace ct
