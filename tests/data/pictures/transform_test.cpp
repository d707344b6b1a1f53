#include "data/pictures/transform.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/pictures/made_up_pictures.h"
#include "data/pictures/resize.h"

namespace ct {
namespace {

/// torchvision's Resize: the longer side is cut off to a whole number; CenterCrop: halves go to the even number.
TEST(Transform, ResizeAndCenterCropRoundAsTorchvisionDoes) {
  EXPECT_EQ(resized_size({500, 375}, 256), PictureSize(341, 256));
  EXPECT_EQ(resized_size({375, 500}, 256), PictureSize(256, 341));
  EXPECT_EQ(resized_size({333, 333}, 256), PictureSize(256, 256));
  EXPECT_EQ(resized_size({3, 65500}, 256), PictureSize(256, 5589333));
  EXPECT_EQ(resized_size({1'000'000, 1}, 2000), PictureSize(2'000'000'000, 2000));
  EXPECT_EQ(center_window({341, 256}, 224), Window(58, 16, 224, 224));  // 58.5
  EXPECT_EQ(center_window({343, 256}, 224), Window(60, 16, 224, 224));  // 59.5
  EXPECT_EQ(center_window({256, 256}, 256), Window(0, 0, 256, 256));
}

struct Sample {
  std::vector<uint8_t> planar;
  explicit Sample(const PictureTransform& t, const FileBytes& file, const SampleKey& key, uint32_t image)
      : planar(t.shape().bytes()) {
    make_sample(file, t, key, image, planar.data());
  }
  bool operator==(const Sample&) const = default;
};

std::vector<uint8_t> planar_of(const Picture& p) {
  std::vector<uint8_t> planar;
  for (int c = 0; c < 3; ++c)
    for (size_t i = 0; i < p.rgb.size(); i += 3) planar.push_back(p.rgb[i + static_cast<size_t>(c)]);
  return planar;
}
Picture window_of(const Picture& picture, const Window& w) {
  Picture result(w.width, w.height);
  for (int y = 0; y < w.height; ++y)
    std::memcpy(result.row(y), picture.row(w.y + y) + 3 * w.x, static_cast<size_t>(3 * w.width));
  return result;
}

/// Decoding a part and resizing a part of that changes nothing.
TEST(Transform, EvaluationIsTheMiddleOfTheResizedPicture) {
  for (const PictureSize size : {PictureSize{190, 131}, PictureSize{64, 200}, PictureSize{40, 36}})
    for (const int shorter : {48, 64}) {
      const PictureTransform transform{.size = 48, .resize = shorter, .crop = RandomResizedCrop{}};
      for (const FileBytes& file :
           {jpeg_file(made_up_picture(size.width, size.height)), png_file(made_up_picture(size.width, size.height))}) {
        const PictureSize whole = resized_size(size, shorter);
        const Picture expected = window_of(resized(decode(file), whole), center_window(whole, 48));
        EXPECT_EQ(Sample(transform, file, {}, 0).planar, planar_of(expected));
        // Training without random_resized_crop takes the same.
        EXPECT_EQ(Sample({.size = 48, .resize = shorter}, file, {.seed = 1, .epoch = 3}, 0).planar,
                  planar_of(expected));
      }
    }
}

TEST(Transform, TrainingResizesARandomWindow) {
  const PictureTransform exact{.size = 32, .resize = 40, .crop = RandomResizedCrop{}, .exact = true};
  const FileBytes file = jpeg_file(made_up_picture(200, 150));
  for (uint32_t image = 0; image < 20; ++image) {
    const SampleKey key{.seed = 5, .epoch = 2};
    Random random = draws_of(key, image, kResizedCropPlace);
    const Window window = random_window(*exact.crop, {200, 150}, random);
    EXPECT_EQ(Sample(exact, file, key, image).planar, planar_of(resized(window_of(decode(file), window), {32, 32})));
    // At the scale that suffices it looks alike.
    PictureTransform quick = exact;
    quick.exact = false;
    const Sample a(exact, file, key, image), b(quick, file, key, image);
    double difference = 0;
    for (size_t i = 0; i < a.planar.size(); ++i) difference += std::abs(a.planar[i] - b.planar[i]);
    EXPECT_LE(difference / static_cast<double>(a.planar.size()), 6);
  }
}

TEST(Transform, DrawsAreKeyedBySeedEpochAndImage) {
  const PictureTransform transform{.size = 16, .resize = 20, .crop = RandomResizedCrop{}};
  const FileBytes file = jpeg_file(made_up_picture(90, 70));
  const Sample first(transform, file, {.seed = 1, .epoch = 0}, 4);
  EXPECT_EQ(first, Sample(transform, file, {.seed = 1, .epoch = 0}, 4));
  EXPECT_NE(first, Sample(transform, file, {.seed = 2, .epoch = 0}, 4));
  EXPECT_NE(first, Sample(transform, file, {.seed = 1, .epoch = 1}, 4));
  EXPECT_NE(first, Sample(transform, file, {.seed = 1, .epoch = 0}, 5));
}

/// A line of pixels that would become millions wide: only the middle is made.
TEST(Transform, ExtremeShapes) {
  const PictureTransform transform{.size = 24, .resize = 32};
  for (const PictureSize size : {PictureSize{1, 60000}, PictureSize{60000, 1}, PictureSize{1, 1}})
    for (const FileBytes& file :
         {jpeg_file(made_up_picture(size.width, size.height)), png_file(made_up_picture(size.width, size.height))}) {
      const Sample sample(transform, file, {}, 0);
      EXPECT_FALSE(sample.planar.empty());
      PictureTransform random = transform;
      random.crop = RandomResizedCrop{};
      Sample(random, file, {.seed = 1, .epoch = 1}, 0);
    }
}

}  // namespace
}  // namespace ct
