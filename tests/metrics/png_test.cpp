#include "metrics/png.h"

#include <gtest/gtest.h>
#include <png.h>

#include <vector>

namespace ct {
namespace {

/// As libpng reads it.
std::vector<uint8_t> decoded(const std::string& png, uint32_t format, int64_t* width) {
  png_image image{.version = PNG_IMAGE_VERSION};
  EXPECT_TRUE(png_image_begin_read_from_memory(&image, png.data(), png.size())) << image.message;
  image.format = format;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  EXPECT_TRUE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr)) << image.message;
  *width = image.width;
  return pixels;
}

TEST(Png, KeepsItsPixelsAndNamesItsWriter) {
  const std::vector<uint8_t> pixels = {255, 0, 0, 0, 255, 0, 0, 0, 255,
                                       1,   2, 3, 4, 5,   6, 7, 8, 9};  // RGB 3 x 2, grey 3 x 6
  for (const auto& [channels, format] : {std::pair{1, PNG_FORMAT_GRAY}, {3, PNG_FORMAT_RGB}})
    for (const std::string_view software : {"", "a program"}) {
      const std::string png = png_of(pixels, 3, channels, software);
      int64_t width = 0;
      EXPECT_EQ(decoded(png, format, &width), pixels);
      EXPECT_EQ(width, 3);
      EXPECT_EQ(is_png_by(png, "a program"), !software.empty());
      EXPECT_FALSE(is_png_by(png, "a prog"));
      EXPECT_FALSE(is_png_by("\x89PNG", "a program"));
      EXPECT_EQ(png, png_of(pixels, 3, channels, software));
    }
}

}  // namespace
}  // namespace ct
