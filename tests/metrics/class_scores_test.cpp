#include "metrics/class_scores.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

/// Rows are true classes: 0 is right 3 of 5 times, 3 never occurs.
Confusion example() {
  Confusion confusion(4);
  const int counts[3][3] = {{3, 2, 0}, {1, 4, 0}, {2, 1, 0}};
  for (int32_t label = 0; label < 3; ++label)
    for (int32_t answer = 0; answer < 3; ++answer)
      for (int i = 0; i < counts[label][answer]; ++i) confusion.add(label, answer);
  return confusion;
}

TEST(ClassScores, OfEachClass) {
  const std::vector<ClassScores> scores = example().scores();
  EXPECT_DOUBLE_EQ(scores[0].precision, 3 / 6.0);
  EXPECT_DOUBLE_EQ(scores[0].recall, 3 / 5.0);
  EXPECT_DOUBLE_EQ(scores[0].f1, 6 / 11.0);
  EXPECT_DOUBLE_EQ(scores[1].precision, 4 / 7.0);
  EXPECT_DOUBLE_EQ(scores[1].recall, 4 / 5.0);
  EXPECT_DOUBLE_EQ(scores[1].f1, 8 / 12.0);
  EXPECT_EQ(scores[1].support, 5);
  EXPECT_EQ(scores[1].predicted, 7);
  EXPECT_EQ(scores[2].precision, 0);  // nothing is taken for it
  EXPECT_EQ(scores[2].recall, 0);
  EXPECT_EQ(scores[2].support, 3);
  EXPECT_FALSE(occurs(scores[3]));
  EXPECT_EQ(scores[3].f1, 0);
}

TEST(ClassScores, Means) {
  const std::vector<ClassScores> scores = example().scores();
  const ClassScores macro = macro_mean(scores), weighted = weighted_mean(scores);
  EXPECT_DOUBLE_EQ(macro.recall, (3 / 5.0 + 4 / 5.0 + 0) / 3);
  EXPECT_DOUBLE_EQ(macro.precision, (3 / 6.0 + 4 / 7.0 + 0) / 3);
  EXPECT_DOUBLE_EQ(weighted.recall, 7 / 13.0);  // the accuracy
  EXPECT_DOUBLE_EQ(weighted.f1, (5 * 6 / 11.0 + 5 * 8 / 12.0) / 13);
  EXPECT_EQ(macro.support, 13);
  EXPECT_EQ(macro_mean({}).f1, 0);
}

TEST(ClassScores, TheCommonestMistakesComeFirst) {
  const auto mistakes = example().mistakes(3);
  ASSERT_EQ(mistakes.size(), 3u);
  EXPECT_EQ(mistakes[0].label, 0);  // of two equally common ones the first
  EXPECT_EQ(mistakes[0].predicted, 1);
  EXPECT_EQ(mistakes[0].images, 2);
  EXPECT_EQ(mistakes[1].label, 2);
  EXPECT_EQ(mistakes[2].images, 1);
  EXPECT_EQ(example().mistakes(9).size(), 4u);
  EXPECT_TRUE(Confusion(2).mistakes(5).empty());
}

}  // namespace
}  // namespace ct
