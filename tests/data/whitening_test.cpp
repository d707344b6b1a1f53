#include "data/whitening.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace ct {
namespace {

constexpr SampleShape kWhitenedShape{2, 9, 7};
constexpr std::array<float, 2> kScale = {1 / 60.0F, 1 / 40.0F}, kShift = {-2, -3};

/// Pixels that depend on the one to the left of them, and channels on each other.
class Correlated : public DataSet {
 public:
  explicit Correlated(int64_t images) : DataSet("made up", kWhitenedShape) {
    labels_.resize(static_cast<size_t>(images));
  }
  uint32_t fingerprint() const override { return 0; }
  bool read(int64_t i, const SampleKey&, uint8_t* to) const override {
    if (i == damaged) return false;
    Random random(static_cast<uint64_t>(i), Purpose::init, 0);
    const auto plane = static_cast<size_t>(kWhitenedShape.height * kWhitenedShape.width);
    double last = 0;
    for (size_t at = 0; at < plane; ++at) {
      last = 0.6 * last + 30 * (random.uniform() - 0.5) + 50;
      to[at] = static_cast<uint8_t>(last);
      to[plane + at] = static_cast<uint8_t>(0.5 * last + 60 * random.uniform());
    }
    return true;
  }
  int64_t damaged = -1;
};

std::vector<uint32_t> first(uint32_t n) {
  std::vector<uint32_t> images(n);
  std::iota(images.begin(), images.end(), 0U);
  return images;
}

TEST(Whitening, ResultsOfComponentsAreUncorrelatedAndOfVarianceOne) {
  const Correlated set(200);
  constexpr int64_t kSide = 2;
  const size_t elements = 8;
  const auto filters = whitening_filters(set, first(200), kScale, kShift, kSide, 16);
  ASSERT_EQ(filters.size(), 16 * elements);
  std::vector<double> moments(elements * elements);
  int64_t patches = 0;
  std::vector<uint8_t> image(kWhitenedShape.bytes());
  for (int64_t i = 0; i < 200; ++i) {
    set.read(i, {}, image.data());
    for (int64_t y = 0; y + kSide <= kWhitenedShape.height; ++y)
      for (int64_t x = 0; x + kSide <= kWhitenedShape.width; ++x, ++patches) {
        std::array<double, 8> out{};
        for (size_t k = 0; k < elements; ++k)
          for (size_t e = 0; e < elements; ++e) {
            const auto c = static_cast<int64_t>(e / 4), dy = static_cast<int64_t>(e / 2 % 2),
                       dx = static_cast<int64_t>(e % 2);
            const double pixel =
                image[static_cast<size_t>((c * kWhitenedShape.height + y + dy) * kWhitenedShape.width + x + dx)];
            out[k] += filters[k * elements + e] * (pixel * kScale[e / 4] + kShift[e / 4]);
          }
        for (size_t a = 0; a < elements; ++a)
          for (size_t b = 0; b < elements; ++b) moments[a * elements + b] += out[a] * out[b];
      }
  }
  for (size_t a = 0; a < elements; ++a)
    for (size_t b = 0; b < elements; ++b)
      EXPECT_NEAR(moments[a * elements + b] / static_cast<double>(patches), a == b ? 1 : 0, a == b ? 0.05 : 1e-5)
          << a << " " << b;  // what hardly varies stays below 1
  for (size_t i = 0; i < elements * elements; ++i) EXPECT_EQ(filters[elements * elements + i], -filters[i]);
}

TEST(Whitening, TakesTheMostImportantAndWhatThereIs) {
  Correlated set(20);
  const auto all = whitening_filters(set, first(20), kScale, kShift, 2, 40),
             few = whitening_filters(set, first(20), kScale, kShift, 2, 5);
  EXPECT_EQ(all.size(), 16 * 8);  // two for each element of a patch
  ASSERT_EQ(few.size(), 5 * 8);
  for (size_t i = 0; i < 3 * 8; ++i) EXPECT_EQ(few[i], all[i]);
  for (size_t i = 0; i < 2 * 8; ++i) EXPECT_EQ(few[3 * 8 + i], -all[i]);
  EXPECT_TRUE(whitening_filters(set, first(20), kScale, kShift, 8, 5).empty());  // larger than the images
  set.damaged = 3;
  EXPECT_EQ(whitening_filters(set, first(20), kScale, kShift, 2, 5).size(), few.size());
  EXPECT_NE(whitening_filters(set, first(20), kScale, kShift, 2, 5), few);
}

}  // namespace
}  // namespace ct
