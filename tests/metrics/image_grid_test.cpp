#include "metrics/image_grid.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

/// Five images of 1 x 2 in rows of floor(sqrt(5)).
TEST(ImageGrid, RowsWithWhiteAround) {
  const std::vector<float> images = {-1, 1, -0.5, 0.5, 0, 0, 1, 1, -1, -1};
  const ImageGrid grid = image_grid(images, 1, 1, 2);
  constexpr uint8_t W = 255;
  const std::vector<uint8_t> expected = {W, W, W,   W,   W, W, W,   W,   W, W,  //
                                         W, W, W,   W,   W, W, W,   W,   W, W,  //
                                         W, W, 0,   W,   W, W, 64,  191, W, W,  //
                                         W, W, W,   W,   W, W, W,   W,   W, W,  //
                                         W, W, W,   W,   W, W, W,   W,   W, W,  //
                                         W, W, 128, 128, W, W, 255, 255, W, W,  //
                                         W, W, W,   W,   W, W, W,   W,   W, W,  //
                                         W, W, W,   W,   W, W, W,   W,   W, W,  //
                                         W, W, 0,   0,   W, W, W,   W,   W, W,  //
                                         W, W, W,   W,   W, W, W,   W,   W, W,  //
                                         W, W, W,   W,   W, W, W,   W,   W, W};
  EXPECT_EQ(grid.width, 10);
  EXPECT_EQ(grid.pixels, expected);
}

TEST(ImageGrid, ChannelsLieTogetherAndAreNormalisedTogether) {
  const std::vector<float> image = {0, 1, 2, 3, 4, 5};  // three channels of 1 x 2
  const ImageGrid grid = image_grid(image, 3, 1, 2);
  EXPECT_EQ(grid.width, 2);  // a single image has nothing around it
  EXPECT_EQ(grid.pixels, (std::vector<uint8_t>{0, 102, 204, 51, 153, 255}));
}

TEST(ImageGrid, OfOneValueIsBlack) {
  EXPECT_EQ(image_grid(std::vector<float>(4, 0.3f), 1, 2, 2).pixels, std::vector<uint8_t>(4, 0));
}

}  // namespace
}  // namespace ct
