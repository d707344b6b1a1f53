#include "data/pictures/encode.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "data/packed/memory_pictures.h"
#include "data/pictures/decode.h"

namespace ct {
namespace {

TEST(Encode, PngLosesNothing) {
  for (const int channels : {1, 3})
    for (const auto& [width, height] : {std::pair(1, 1), std::pair(7, 3), std::pair(32, 32)}) {
      const auto planar = smooth(channels, width, height, 5);
      const Picture picture = decode(encode_png(planar, channels, width, height));
      ASSERT_EQ(picture.width, width);
      ASSERT_EQ(picture.height, height);
      const size_t plane = planar.size() / static_cast<size_t>(channels);
      for (size_t i = 0; i < plane; ++i)
        for (size_t c = 0; c < 3; ++c)
          EXPECT_EQ(picture.rgb[3 * i + c], planar[(channels == 3 ? c * plane : 0) + i]) << i;
    }
}

TEST(Encode, JpegComesCloserWithQuality) {
  const Picture picture = decode(png_file(90, 70, 3));
  double before = 1e9;
  size_t bytes = 0;
  for (const int quality : {20, 60, 95}) {
    const auto file = encode_jpeg(picture, quality);
    const Picture again = decode(file);
    ASSERT_EQ(again.width, 90);
    ASSERT_EQ(again.height, 70);
    double error = 0;
    for (size_t i = 0; i < picture.rgb.size(); ++i) error += std::abs(picture.rgb[i] - again.rgb[i]);
    error /= static_cast<double>(picture.rgb.size());
    EXPECT_LT(error, before) << quality;
    EXPECT_GT(file.size(), bytes) << quality;
    before = error;
    bytes = file.size();
  }
  EXPECT_LT(before, 2);
}

TEST(Encode, JpegHasHalfTheColourAsPillowSavesIt) {
  const auto file = encode_jpeg(decode(png_file(40, 40, 1)), 90);
  // The frame's header: marker, length, precision, height, width, components, then number and sampling of each.
  size_t at = 0;
  while (file[at] != std::byte{0xff} || file[at + 1] != std::byte{0xc0}) ++at;
  EXPECT_EQ(file[at + 9], std::byte{3});
  EXPECT_EQ(file[at + 11], std::byte{0x22});
  EXPECT_EQ(file[at + 14], std::byte{0x11});
  EXPECT_EQ(file[at + 17], std::byte{0x11});
}

TEST(Encode, APictureTooLongForJpegIsRefused) {
  EXPECT_NO_THROW(encode_jpeg(Picture(kLongestJpeg, 1), 50));
  EXPECT_THROW(encode_jpeg(Picture(kLongestJpeg + 1, 1), 50), Error);
}

}  // namespace
}  // namespace ct
