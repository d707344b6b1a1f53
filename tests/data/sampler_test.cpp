#include "data/sampler.h"

#include <algorithm>
#include <set>

#include "data/augmentation.h"
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

TEST_F(SamplerTest, HoldOutDependsOnTheSeedAlone) {
  const HoldOut parts = hold_out(42, 1000, 100);
  EXPECT_EQ(parts.validation.size(), 100u);
  EXPECT_EQ(parts.training.size(), 900u);
  EXPECT_TRUE(std::is_sorted(parts.training.begin(), parts.training.end()));
  EXPECT_TRUE(std::is_sorted(parts.validation.begin(), parts.validation.end()));
  std::set<uint32_t> all(parts.training.begin(), parts.training.end());
  all.insert(parts.validation.begin(), parts.validation.end());
  EXPECT_EQ(all.size(), 1000u);
  EXPECT_EQ(hold_out(42, 1000, 100).validation, parts.validation);
  EXPECT_NE(hold_out(43, 1000, 100).validation, parts.validation);
  EXPECT_NE(parts.validation.back(), 99u);
  EXPECT_TRUE(hold_out(42, 1000, 0).validation.empty());
  for (int64_t bad : {int64_t{-1}, int64_t{1000}, int64_t{5000000000}}) {
    expect_error(ExitCode::usage, {"data.validation", "999"}, [&] { hold_out(42, 1000, bad); });
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

TEST_F(SamplerTest, CropsCoverTheirRangeEvenly) {
  const AugmentStep crop[] = {{.kind = AugmentStep::random_crop, .padding = 4}};
  int dy[9] = {}, dx[9] = {};
  for (uint32_t image = 0; image < 9000; ++image) {
    const Draw draw = draw_augmentation(crop, {42, 3}, image);
    ASSERT_LE(std::abs(draw.dy), 4);
    ASSERT_LE(std::abs(draw.dx), 4);
    EXPECT_EQ(draw.flip, 0);
    ++dy[draw.dy + 4];
    ++dx[draw.dx + 4];
  }
  for (int i = 0; i < 9; ++i) {
    EXPECT_NEAR(dy[i], 1000, 150);
    EXPECT_NEAR(dx[i], 1000, 150);
  }
}

TEST_F(SamplerTest, FlipsFollowTheirProbability) {
  const auto flips = [](double p) {
    const AugmentStep flip[] = {{.kind = AugmentStep::flip, .p = p}};
    int count = 0;
    for (uint32_t image = 0; image < 10000; ++image) count += draw_augmentation(flip, {42, 0}, image).flip;
    return count;
  };
  EXPECT_EQ(flips(0), 0);
  EXPECT_EQ(flips(1), 10000);
  EXPECT_NEAR(flips(0.25), 2500, 220);
}

TEST_F(SamplerTest, DrawsAreKeyedByEpochAndImageAndStepsCompose) {
  const AugmentStep crop = {.kind = AugmentStep::random_crop, .padding = 4};
  const AugmentStep mirror = {.kind = AugmentStep::flip, .p = 1};
  const auto draw = [](std::vector<AugmentStep> steps, uint64_t seed, int64_t epoch, uint32_t image) {
    const Draw d = draw_augmentation(steps, {seed, epoch}, image);
    return std::array<int, 3>{d.dy, d.dx, d.flip};
  };
  EXPECT_EQ(draw({}, 1, 1, 1), (std::array<int, 3>{0, 0, 0}));
  int same_epoch = 0, same_image = 0, same_seed = 0;
  for (uint32_t i = 0; i < 100; ++i) {
    const auto one = draw({crop}, 1, 1, i);
    EXPECT_EQ(one, draw({crop}, 1, 1, i));
    same_epoch += one == draw({crop}, 1, 2, i);
    same_image += one == draw({crop}, 1, 1, i + 1);
    same_seed += one == draw({crop}, 2, 1, i);
    // crop, then flip: the crop as it is; flip, then crop: it moves the mirrored image.
    EXPECT_EQ(draw({crop, mirror}, 1, 1, i), (std::array<int, 3>{one[0], one[1], 1}));
    const auto unflipped = draw({mirror, mirror, crop}, 1, 1, i);
    EXPECT_EQ(unflipped[2], 0);
    const auto flipped = draw({{.kind = AugmentStep::flip, .p = 0}, mirror, crop}, 1, 1, i);
    EXPECT_EQ(flipped, (std::array<int, 3>{unflipped[0], -unflipped[1], 1}));
  }
  EXPECT_LT(same_epoch, 10);
  EXPECT_LT(same_image, 10);
  EXPECT_LT(same_seed, 10);
}

}  // namespace
}  // namespace ct
