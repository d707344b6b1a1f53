#include <gtest/gtest.h>

#include "data/pictures/transform.h"

namespace ct {
namespace {

TEST(ResizedCrop, BoxesLieInThePictureAndFollowTheirRule) {
  const RandomResizedCrop crop;
  for (const PictureSize size : {PictureSize{500, 375}, PictureSize{20, 33}, PictureSize{1, 1}}) {
    double shares = 0;
    constexpr int kDraws = 4000;
    for (int i = 0; i < kDraws; ++i) {
      Random random(7, Purpose::augment, static_cast<uint64_t>(i));
      const Window w = random_window(crop, size, random);
      ASSERT_TRUE(w.x >= 0 && w.y >= 0 && w.width > 0 && w.height > 0) << i;
      ASSERT_TRUE(w.x + w.width <= size.width && w.y + w.height <= size.height) << i;
      shares += static_cast<double>(w.width) * w.height / size.width / size.height;
      if (size.width < 100) continue;
      const double ratio = static_cast<double>(w.width) / w.height;
      EXPECT_TRUE(ratio > 0.74 && ratio < 1.35) << ratio;
    }
    if (size.width >= 100) {
      EXPECT_NEAR(shares / kDraws, 0.433, 0.02);  // 0.54, less what does not fit
    }
  }
}

TEST(ResizedCrop, APictureInWhichNoRatioFitsGivesItsMiddle) {
  const RandomResizedCrop crop;
  Random random(1, Purpose::augment);
  EXPECT_EQ(random_window(crop, {1000, 3}, random), Window(498, 0, 4, 3));
  EXPECT_EQ(random_window(crop, {3, 1000}, random), Window(0, 498, 3, 4));
  EXPECT_EQ(random_window({{0.5, 0.5}, {50, 50}}, {10, 10}, random), Window(0, 4, 10, 1));  // rounded to no height
}

}  // namespace
}  // namespace ct
