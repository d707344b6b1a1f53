#include "checkpoint/tensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace ct {
namespace {

template <class T>
std::vector<float> converted(StoredType type, const std::vector<T>& from) {
  std::vector<float> to(from.size());
  EXPECT_FALSE(to_f32(type, std::as_bytes(std::span(from)), to));
  return to;
}

// element() says what is stored, by a way of its own for each type.
TEST(Tensors, EveryHalfIsConvertedAsItIs) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const StoredType type : {StoredType::f16, StoredType::bf16}) {
    const std::vector<float> values = converted(type, all);
    const TensorView view{"t", type, {65536}, std::as_bytes(std::span(all))};
    for (size_t i = 0; i < all.size(); ++i)
      if (std::isnan(element(view, i)))
        ASSERT_TRUE(std::isnan(values[i])) << i;
      else
        ASSERT_EQ(values[i], element(view, i)) << i;
  }
  EXPECT_EQ(converted<uint16_t>(StoredType::f16, {0x0001, 0x3c00, 0xfbff, 0x7c00}),
            (std::vector<float>{0x1p-24F, 1, -65504, HUGE_VALF}));
  EXPECT_EQ(converted<uint16_t>(StoredType::bf16, {0x0001, 0x3f80, 0xff7f, 0x7f80}),
            (std::vector<float>{0x1p-133F, 1, -0x1.fep127F, HUGE_VALF}));
}

TEST(Tensors, DoublesAreRoundedAndThoseTooLargeFound) {
  constexpr double kLargest = std::numeric_limits<float>::max(), kHuge = std::numeric_limits<double>::infinity();
  EXPECT_EQ(converted<double>(StoredType::f64, {1 + 0x1p-25, 1 + 0x1.8p-24, -1e-300, kLargest, -kHuge}),
            (std::vector<float>{1, 1 + 0x1p-23F, -0.0F, static_cast<float>(kLargest), -HUGE_VALF}));
  const std::vector<double> from = {kHuge, 0, -2 * kLargest, 1e300};
  std::vector<float> to(from.size());
  EXPECT_EQ(to_f32(StoredType::f64, std::as_bytes(std::span(from)), to), 2u);
}

TEST(Tensors, ElementsMayLieUnaligned) {
  std::vector<std::byte> bytes(1 + sizeof(double));
  const double x = 0.5;
  std::memcpy(bytes.data() + 1, &x, sizeof x);
  float value = 0;
  EXPECT_FALSE(to_f32(StoredType::f64, std::span(bytes).subspan(1), std::span(&value, 1)));
  EXPECT_EQ(value, 0.5F);
}

TEST(Tensors, PlacesAreCountedAsRowsLie) {
  EXPECT_EQ(place_of(std::vector<int64_t>{}, 0), "[]");
  EXPECT_EQ(place_of(std::vector<int64_t>{7}, 5), "[5]");
  EXPECT_EQ(place_of(std::vector<int64_t>{6, 3, 5, 5}, ((4 * 3 + 2) * 5 + 1) * 5 + 3), "[4, 2, 1, 3]");
}

}  // namespace
}  // namespace ct
