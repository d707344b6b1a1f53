#include "base/random.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace ct {
namespace {

using Words = std::array<uint32_t, 4>;

// Random123's known answers for philox4x32-10.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, ~uint64_t{0}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, uint64_t{0x299f31d0} << 32 | 0xa4093822),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, StreamsDifferInEveryPartOfTheirKey) {
  std::set<std::vector<uint32_t>> streams;
  int made = 0;
  const auto add = [&](Random random) {
    std::vector<uint32_t> words;
    for (int i = 0; i < 9; ++i) words.push_back(random.next_u32());
    streams.insert(words);
    ++made;
  };
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
    for (const Purpose purpose : {Purpose::init, Purpose::shuffle, Purpose::augment})
      for (const uint64_t a : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
        for (const uint32_t b : {0u, 1u, 1u << 24}) add(Random(seed, purpose, a, b));
  EXPECT_EQ(static_cast<int>(streams.size()), made);
}

TEST(Random, StaysInItsRangeAndFillsIt) {
  Random random(42, Purpose::shuffle);
  std::vector<int> seen(7);
  double sum = 0;
  constexpr int kDraws = 70000;
  for (int i = 0; i < kDraws; ++i) {
    const uint32_t n = random.below(7);
    ASSERT_LT(n, 7u);
    ++seen[n];
    const double u = random.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  for (const int count : seen) EXPECT_NEAR(count, kDraws / 7, 5 * 93);  // five standard deviations
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * 0.0011);
  EXPECT_EQ(random.below(1), 0u);
}

TEST(Random, WideNumbersAreTwoWords) {
  Random words(3, Purpose::init, 5), wide(3, Purpose::init, 5);
  for (int i = 0; i < 6; ++i) {
    const uint64_t low = words.next_u32();
    EXPECT_EQ(wide.next_u64(), low | uint64_t{words.next_u32()} << 32);
  }
}

}  // namespace
}  // namespace ct
