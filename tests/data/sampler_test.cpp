#include "data/sampler.h"

#include <algorithm>
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
