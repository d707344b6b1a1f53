#include "data/pictures/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "data/pictures/made_up_pictures.h"

namespace ct {
namespace {

/// The method in its plainest form: one side at a time, each value rounded to 8 bits. `at`(line, place, colour) is a
/// value of the input; so many `pixels` there are.
template <class At>
uint8_t blend(At at, int pixels, double from, double length, int size, int i) {
  const double step = length / size, support = std::max(step, 1.0), center = from + (i + 0.5) * step;
  const int first = std::max(static_cast<int>(center - support + 0.5), 0);
  const int last = std::min(static_cast<int>(center + support + 0.5), pixels);
  std::vector<double> weights;
  double sum = 0;
  for (int p = first; p < last; ++p) {
    const double distance = std::abs((p - center + 0.5) * (1 / support));
    weights.push_back(distance < 1 ? 1 - distance : 0);
    sum += weights.back();
  }
  int64_t total = 1 << 21;
  for (int p = first; p < last; ++p) {
    const double share = weights[static_cast<size_t>(p - first)] / sum;
    total += int64_t{at(p)} * static_cast<int>(0.5 + share * (1 << 22));
  }
  return static_cast<uint8_t>(std::min<int64_t>(total >> 22, 255));
}

/// All of a picture that was cut out.
Picture reference(const Picture& picture, double x, double y, double width, double height, PictureSize size) {
  Picture wide(size.width, picture.height), result(size.width, size.height);
  for (int row = 0; row < picture.height; ++row)
    for (int i = 0; i < size.width; ++i)
      for (int c = 0; c < 3; ++c)
        wide.row(row)[3 * i + c] =
            blend([&](int p) { return picture.row(row)[3 * p + c]; }, picture.width, x, width, size.width, i);
  for (int i = 0; i < size.height; ++i)
    for (int column = 0; column < 3 * size.width; ++column)
      result.row(i)[column] =
          blend([&](int p) { return wide.row(p)[column]; }, picture.height, y, height, size.height, i);
  return result;
}

Picture cut(const Picture& picture, const Window& w) {
  Picture result(w.width, w.height);
  for (int y = 0; y < w.height; ++y)
    std::memcpy(result.row(y), picture.row(w.y + y) + 3 * w.x, static_cast<size_t>(3 * w.width));
  return result;
}

void expect_same(const Picture& expected, const Window& part, const std::vector<uint8_t>& planar) {
  const size_t plane = static_cast<size_t>(part.width) * static_cast<size_t>(part.height);
  ASSERT_EQ(planar.size(), 3 * plane);
  for (int y = 0; y < part.height; ++y)
    for (int x = 0; x < part.width; ++x)
      for (int c = 0; c < 3; ++c)
        ASSERT_EQ(int{planar[static_cast<size_t>(c) * plane + static_cast<size_t>(y * part.width + x)]},
                  int{expected.row(part.y + y)[3 * (part.x + x) + c]})
            << "pixel " << x << "," << y << " colour " << c;
}

TEST(Resize, WholePicturesOfAnySize) {
  Random random(1, Purpose::synthetic);
  for (int i = 0; i < 60; ++i) {
    const auto side = [&](uint32_t most) { return 1 + static_cast<int>(random.below(i % 7 == 0 ? 3 : most)); };
    const Picture picture = made_up_picture(side(150), side(150), random.next_u32());
    const PictureSize size = {side(90), side(90)};
    const Picture got = resized(picture, size);
    const Picture expected = reference(picture, 0, 0, picture.width, picture.height, size);
    ASSERT_TRUE(std::ranges::equal(got.rgb, expected.rgb))
        << picture.width << "x" << picture.height << " to " << size.width << "x" << size.height;
  }
}

TEST(Resize, TheSameSizeChangesNothing) {
  const Picture picture = made_up_picture(37, 23);
  EXPECT_TRUE(std::ranges::equal(resized(picture, {37, 23}).rgb, picture.rgb));
}

TEST(Resize, ManyTimesSmaller) {
  const Picture picture = made_up_picture(1300, 700);
  const PictureSize size = {7, 3};
  EXPECT_TRUE(std::ranges::equal(resized(picture, size).rgb, reference(picture, 0, 0, 1300, 700, size).rgb));
  Picture white(3000, 2);
  std::ranges::fill(white.rgb, uint8_t{255});
  EXPECT_TRUE(std::ranges::all_of(resized(white, {5, 5}).rgb, [](uint8_t level) { return level == 255; }));
}

/// A box counts as if it had been cut out, and what is not looked at need not be there.
TEST(Resize, PartsOfBoxes) {
  Random random(2, Purpose::synthetic);
  for (int i = 0; i < 60; ++i) {
    const Picture picture =
        made_up_picture(40 + static_cast<int>(random.below(80)), 40 + static_cast<int>(random.below(80)));
    Window box;
    box.width = 1 + static_cast<int>(random.below(static_cast<uint32_t>(picture.width)));
    box.height = 1 + static_cast<int>(random.below(static_cast<uint32_t>(picture.height)));
    box.x = static_cast<int>(random.below(static_cast<uint32_t>(picture.width - box.width + 1)));
    box.y = static_cast<int>(random.below(static_cast<uint32_t>(picture.height - box.height + 1)));
    const PictureSize size = {1 + static_cast<int>(random.below(70)), 1 + static_cast<int>(random.below(70))};
    Window part;
    part.width = 1 + static_cast<int>(random.below(static_cast<uint32_t>(size.width)));
    part.height = 1 + static_cast<int>(random.below(static_cast<uint32_t>(size.height)));
    part.x = static_cast<int>(random.below(static_cast<uint32_t>(size.width - part.width + 1)));
    part.y = static_cast<int>(random.below(static_cast<uint32_t>(size.height - part.height + 1)));
    const Resizing resizing{box_of(box), size, part};
    const Picture expected = reference(cut(picture, box), 0, 0, box.width, box.height, size);
    std::vector<uint8_t> planar(static_cast<size_t>(3 * part.width * part.height));
    const Resizer resizer(resizing);
    resizer.run(picture, 0, 0, planar.data());
    expect_same(expected, part, planar);
    const Window needed = resizer.looked_at();
    ASSERT_GE(needed.x, box.x);
    ASSERT_LE(needed.x + needed.width, box.x + box.width);
    std::ranges::fill(planar, uint8_t{0});
    resizer.run(cut(picture, needed), needed.x, needed.y, planar.data());
    expect_same(expected, part, planar);
  }
}

TEST(Resize, BoxesThatBeginInsidePixels) {
  const Picture picture = made_up_picture(60, 50);
  const Box box = {7.25, 3.5, 31.625, 40.25};
  const PictureSize size = {16, 24};
  const Picture expected = reference(cut(picture, {7, 3, 32, 41}), 0.25, 0.5, box.width, box.height, size);
  std::vector<uint8_t> planar(3 * 16 * 24);
  Resizer({box, size, {0, 0, 16, 24}}).run(picture, 0, 0, planar.data());
  expect_same(expected, {0, 0, 16, 24}, planar);
}

}  // namespace
}  // namespace ct
