#include "train/run/evaluation_files.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

Evaluation::Opinion opinion(int32_t place, bool correct, float probability) {
  return {.place = place,
          .label = 0,
          .predicted = correct ? 0 : 1,
          .correct = correct,
          .label_probability = 0,
          .classes = {correct ? 0 : 1, 2, -1},
          .probabilities = {probability, 0, 0}};
}

TEST(MostConfident, TakesEqualOnesInTheOrderOfImages) {
  const std::vector<Evaluation::Opinion> opinions = {opinion(0, true, 0.5F), opinion(1, false, 0.9F),
                                                     opinion(2, true, 0.9F), opinion(3, true, 0.9F),
                                                     opinion(4, false, 0.3F)};
  const Confident chosen = most_confident(opinions, 2);
  EXPECT_EQ(chosen.right, (std::vector<size_t>{2, 3}));
  EXPECT_EQ(chosen.wrong, (std::vector<size_t>{1, 4}));
  EXPECT_TRUE(most_confident({}, 2).right.empty());
}

TEST(SmallPicture, HasTheMeansOfSquares) {
  const std::vector<uint8_t> pixels = {0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110};
  const SmallPicture same = small_picture(pixels, {3, 2, 2}, 2);
  EXPECT_EQ(same.pixels, (std::vector<uint8_t>{0, 40, 80, 10, 50, 90, 20, 60, 100, 30, 70, 110}));
  const SmallPicture small = small_picture(pixels, {1, 3, 4}, 2);
  EXPECT_EQ(small.width, 2);
  EXPECT_EQ(small.height, 2);
  EXPECT_EQ(small.pixels, (std::vector<uint8_t>{25, 45, 85, 105}));
}

}  // namespace
}  // namespace ct
