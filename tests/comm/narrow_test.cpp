#include "comm/reduction/narrow.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

/// 0, 1.001, 2.002, ...: of 16 bits no type has them, but for 0.
std::vector<float> numbers(size_t n) {
  std::vector<float> values;
  for (size_t i = 0; i < n; ++i) values.push_back(1.001f * static_cast<float>(i));
  return values;
}

TEST(NarrowMessage, RoundsWhatItMayAndKeepsTheRest) {
  const std::vector<ShardRange> ranges = {{.whole = 4 * 10, .elements = 20}, {.whole = 4 * 40, .elements = 5}};
  for (const auto& [type, unit] : {std::pair{DType::bf16, 0x1p-8f}, {DType::f16, 0x1p-11f}}) {
    const NarrowMessage message(ranges, {type, {{0, 12}, {15, 28}, {44, 60}}});
    // Narrow: 10, 11, 15 to 27, 44. Whole: 12 to 14, 28, 29, 40 to 43.
    EXPECT_EQ(message.bytes(), 16u * 2 + 9u * 4);
    const std::vector<float> whole = numbers(60);
    std::vector<std::byte> bytes(message.bytes());
    message.pack(whole.data(), bytes.data());
    std::vector<float> packed(25, -1), placed(60, -1);
    message.unpack(bytes.data(), packed.data());
    message.place(bytes.data(), placed.data());
    for (size_t i = 0; i < 60; ++i) {
      const bool in_first = i >= 10 && i < 30, in_second = i >= 40 && i < 45;
      if (!in_first && !in_second) {
        EXPECT_EQ(placed[i], -1) << i;
        continue;
      }
      const bool narrow = i < 12 || (i >= 15 && i < 28) || i == 44;
      EXPECT_EQ(packed[in_first ? i - 10 : i - 20], placed[i]) << i;
      if (narrow) {
        EXPECT_NEAR(placed[i], whole[i], unit * whole[i]) << i;
        EXPECT_NE(placed[i], whole[i]) << i;
      } else {
        EXPECT_EQ(placed[i], whole[i]) << i;
      }
    }
  }
}

TEST(NarrowMessage, OfNothingAndOfAll) {
  EXPECT_EQ(NarrowMessage({}, {DType::bf16, {{0, 5}}}).bytes(), 0u);
  EXPECT_EQ(NarrowMessage({{.whole = 0, .elements = 5}}, {DType::bf16, {}}).bytes(), 20u);
  EXPECT_EQ(NarrowMessage({{.whole = 0, .elements = 5}}, {DType::f16, {{0, 9}}}).bytes(), 10u);
}

}  // namespace
}  // namespace ct
