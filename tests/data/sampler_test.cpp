#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "data/data_fixture.h"

namespace ct {
namespace {

using SamplerTest = DataFixture;

TEST_F(SamplerTest, PermutationHoldsEveryImageOnce) {
  const auto order = permutation(42, 0, 50000);
  EXPECT_EQ(std::set<uint32_t>(order.begin(), order.end()).size(), 50000u);
  EXPECT_EQ(*std::max_element(order.begin(), order.end()), 49999u);
  EXPECT_EQ(order, permutation(42, 0, 50000));
  EXPECT_NE(order, permutation(42, 1, 50000));
  EXPECT_NE(order, permutation(43, 0, 50000));
  EXPECT_TRUE(permutation(1, 1, 0).empty());
  const auto plain = permutation(42, 5, 100, false);
  EXPECT_TRUE(std::is_sorted(plain.begin(), plain.end()));
  EXPECT_EQ(plain.size(), 100u);
}

TEST_F(SamplerTest, EveryPlaceIsEquallyLikely) {
  constexpr int kDraws = 24000;
  int counts[4][4] = {};
  for (int epoch = 0; epoch < kDraws; ++epoch) {
    const auto order = permutation(9, epoch, 4);
    for (int place = 0; place < 4; ++place) ++counts[place][order[place]];
  }
  for (const auto& row : counts) {
    for (int count : row) EXPECT_NEAR(count, kDraws / 4, 350);  // 5 standard deviations
  }
}

TEST_F(SamplerTest, BalancedDrawsHaveEveryClassEquallyOften) {
  const std::vector<std::vector<uint32_t>> by_class = {{0, 2, 4, 6, 8, 10, 12, 14}, {1}, {3, 5}};
  constexpr int64_t kDraws = 30000;
  std::map<uint32_t, int64_t> counts;
  for (const uint32_t image : balanced_draws(42, 3, kDraws, by_class)) ++counts[image];
  for (const auto& of_class : by_class)
    for (const uint32_t image : of_class)  // 5 standard deviations
      EXPECT_NEAR(counts[image], kDraws / 3 / std::ssize(of_class), 5 * std::sqrt(kDraws / 3 / std::ssize(of_class)))
          << image;
  EXPECT_EQ(counts.size(), 11u);
  EXPECT_EQ(balanced_draws(42, 3, 50, by_class), balanced_draws(42, 3, 50, by_class));
  EXPECT_NE(balanced_draws(42, 3, 50, by_class), balanced_draws(42, 4, 50, by_class));
  EXPECT_NE(balanced_draws(42, 3, 50, by_class), balanced_draws(43, 3, 50, by_class));
}

TEST_F(SamplerTest, EarlierOccurrencesAreCounted) {
  const std::vector<uint32_t> order = {7, 3, 7, 7, 9, 3};
  EXPECT_EQ(earlier_occurrences(order), (std::vector<uint32_t>{0, 0, 1, 2, 0, 1}));
}

TEST_F(SamplerTest, MicroBatchesTileTheOrder) {
  const auto order = permutation(1, 0, 100);
  std::vector<uint32_t> seen;
  for (int step = 0; step < 8; ++step) {
    for (int k = 0; k < 3; ++k) {
      const auto part = micro_batch_images(order, 12, 4, step, k);
      seen.insert(seen.end(), part.begin(), part.end());
    }
  }
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), order.begin()));
  EXPECT_EQ(seen.size(), 96u);
}

}  // namespace
}  // namespace ct
