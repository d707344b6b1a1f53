#include "comm/reduction/tree_sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "comm/reference.h"

namespace ct {
namespace {

using Leaves = std::vector<std::vector<float>>;

std::vector<const float*> pointers(const Leaves& leaves) {
  std::vector<const float*> all;
  for (const auto& leaf : leaves) all.push_back(leaf.data());
  return all;
}

/// Longer than a block of the kernel, and no multiple of any vector length.
constexpr int64_t kNumel = 1024 + 1 + 16 + 5;

TEST(TreeSum, OneByOneAllSizes) {
  for (int64_t s = 1; s <= 48; ++s) {
    const Leaves leaves = random_leaves(s, kNumel);
    TreeSum sum(kNumel, s);
    std::vector<float> out(kNumel);
    for (int round = 0; round < 2; ++round) {  // the second starts anew
      for (const auto& leaf : leaves) sum.push(leaf.data());
      EXPECT_EQ(sum.pushed(), s);
      sum.finish(out.data());
      EXPECT_EQ(sum.pushed(), 0);
      EXPECT_TRUE(same_bits(out, reference_tree(leaves))) << s;
    }
  }
}

TEST(TreeSum, AnyGroupingOfPushes) {
  for (int64_t s = 1; s <= 48; ++s) {
    const Leaves leaves = random_leaves(s, kNumel);
    const std::vector<float> want = reference_tree(leaves);
    for (int64_t group : {1, 2, 3, 4, 5, 7, 8, 48}) {
      std::vector<float> out(kNumel);
      TreeSum sum(kNumel, s);
      auto at = pointers(leaves);
      std::span<const float* const> rest = at;
      for (; static_cast<int64_t>(rest.size()) > group; rest = rest.subspan(static_cast<size_t>(group))) {
        sum.push(rest.first(static_cast<size_t>(group)));
      }
      sum.finish(rest, out.data());
      EXPECT_TRUE(same_bits(out, want)) << s << " by " << group;
      EXPECT_LE(sum.bytes(), static_cast<size_t>(TreeSum::level_count(s) * kNumel) * sizeof(float));
    }
  }
}

TEST(TreeSum, MakesOnlyThePartialSumsItNeeds) {
  const auto levels_used = [](int64_t leaves, int64_t group) {
    const Leaves all = random_leaves(group, kNumel);
    const auto at = pointers(all);
    std::vector<float> out(kNumel);
    TreeSum sum(kNumel, leaves);
    for (int64_t i = group; i < leaves; i += group) sum.push(at);
    sum.finish(at, out.data());
    EXPECT_EQ(sum.bytes() % (kNumel * sizeof(float)), 0u);
    return sum.bytes() / (kNumel * sizeof(float));
  };
  EXPECT_EQ(levels_used(16, 16), 0u);
  EXPECT_EQ(levels_used(16, 8), 1u);
  EXPECT_EQ(levels_used(16, 4), 2u);
  EXPECT_EQ(levels_used(16, 1), 4u);
  EXPECT_EQ(levels_used(12, 3), 4u);
  EXPECT_EQ(TreeSum(kNumel, 16).bytes(), 0u);
}

TEST(TreeSum, FewerLeavesThanAnnounced) {
  const Leaves leaves = random_leaves(13, kNumel);
  TreeSum sum(kNumel, 1000);
  std::vector<float> out(kNumel);
  for (const auto& leaf : leaves) sum.push(leaf.data());
  sum.finish(out.data());
  EXPECT_TRUE(same_bits(out, reference_tree(leaves)));
}

TEST(TreeSum, OutputMayBeAnyOfTheLastLeaves) {
  for (int64_t s : {1, 2, 3, 7, 8, 31, 32}) {
    for (int64_t alias = 0; alias < s; ++alias) {
      Leaves leaves = random_leaves(s, kNumel);
      const std::vector<float> want = reference_tree(leaves);
      TreeSum sum(kNumel, s);
      sum.finish(pointers(leaves), leaves[static_cast<size_t>(alias)].data());
      EXPECT_TRUE(same_bits(leaves[static_cast<size_t>(alias)], want)) << s << " into " << alias;
    }
  }
}

TEST(TreeSum, PowersOfTwoPerRankEqualTheFlatTree) {
  for (int64_t ranks = 1; ranks <= 48; ++ranks) {
    for (int log2_a = 0; ranks << log2_a <= 48; ++log2_a) {
      const int64_t a = int64_t{1} << log2_a, s = ranks * a;
      const Leaves leaves = random_leaves(s, kNumel);
      TreeSum outer(kNumel, ranks), inner(kNumel, a);
      std::vector<float> part(kNumel), out(kNumel);
      for (int64_t r = 0; r < ranks; ++r) {
        for (int64_t j = 0; j < a; ++j) inner.push(leaves[static_cast<size_t>(r * a + j)].data());
        inner.finish(part.data());
        outer.push(part.data());
      }
      outer.finish(out.data());
      EXPECT_TRUE(same_bits(out, reference_tree(leaves))) << ranks << " x " << a;
    }
  }
}

TEST(TreeSum, DealtInTurnEqualsTheFlatTree) {
  for (int64_t ranks = 1; ranks <= 48; ++ranks) {
    for (int64_t a = 1; ranks * a <= 48; ++a) {
      const Leaves leaves = random_leaves(ranks * a, kNumel);
      const auto all = pointers(leaves);
      TreeSum sum(kNumel, ranks * a);
      std::vector<float> out(kNumel);
      for (int64_t j = 0; j < a; ++j) {
        const auto step = std::span(all).subspan(static_cast<size_t>(j * ranks), static_cast<size_t>(ranks));
        if (j + 1 < a) {
          sum.push(step);
        } else {
          sum.finish(step, out.data());
        }
      }
      EXPECT_TRUE(same_bits(out, reference_tree(leaves))) << ranks << " x " << a;
    }
  }
}

TEST(TreeSum, TheOrderMatters) {  // or every test above would prove nothing
  const Leaves leaves = random_leaves(7, kNumel);
  std::vector<float> left_to_right = leaves[0];
  for (size_t l = 1; l < leaves.size(); ++l) {
    for (size_t i = 0; i < left_to_right.size(); ++i) left_to_right[i] += leaves[l][i];
  }
  EXPECT_FALSE(same_bits(left_to_right, reference_tree(leaves)));
}

TEST(TreeSum, LevelsAndMisuse) {
  EXPECT_EQ(TreeSum::level_count(1), 0);
  EXPECT_EQ(TreeSum::level_count(2), 1);
  EXPECT_EQ(TreeSum::level_count(3), 2);
  EXPECT_EQ(TreeSum::level_count(8), 3);
  EXPECT_EQ(TreeSum::level_count(9), 4);
  EXPECT_ANY_THROW(TreeSum::level_count(0));
  std::vector<float> x(4), out(4);
  TreeSum sum(4, 3);
  EXPECT_ANY_THROW(sum.finish(out.data()));
  sum.push(x.data());
  sum.push(x.data());
  sum.push(x.data());
  EXPECT_ANY_THROW(sum.push(x.data()));
  TreeSum(0, 3).push(static_cast<const float*>(nullptr));  // an empty shard
}

}  // namespace
}  // namespace ct
