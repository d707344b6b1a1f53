#include "tree_sum.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>

#include "buffer.h"
#include "comm/reduction/tree_sum.h"
#include "run.h"

namespace ct::kernels {
namespace {

std::vector<float> leaf_values(size_t n, size_t leaf) { return numbers(n, 31 + static_cast<uint32_t>(leaf)); }

using Levels = std::vector<std::unique_ptr<Buffer<float>>>;
Levels make_levels(int count, size_t n, size_t shift) {
  Levels levels;
  for (int l = 0; l < count; ++l) levels.push_back(std::make_unique<Buffer<float>>(n, shift));
  return levels;
}
std::vector<float*> pointers(const Levels& levels) {
  std::vector<float*> at;
  for (const auto& level : levels) at.push_back(level->data());
  return at;
}

/// tree(leaves) as the header defines it.
std::vector<float> tree(size_t n, size_t begin, size_t end) {
  if (end - begin == 1) return leaf_values(n, begin);
  const size_t middle = begin + std::bit_floor(end - begin - 1);
  std::vector<float> sum = tree(n, begin, middle);
  const std::vector<float> rest = tree(n, middle, end);
  for (size_t i = 0; i < n; ++i) sum[i] += rest[i];
  return sum;
}

/// Two sums one after the other in the same levels; the last leaf is replaced, or the sum goes elsewhere.
void expect_tree(size_t leaves, size_t n, size_t shift, bool in_place) {
  const int level_count = TreeSum::level_count(static_cast<int64_t>(leaves));
  const Levels levels = make_levels(level_count, n, shift);
  const std::vector<float*> at = pointers(levels);
  Buffer<int32_t> counter(1);
  counter.at(0) = 0;
  for (int time = 0; time < 2; ++time) {
    TreeSum expected(static_cast<int64_t>(n), static_cast<int64_t>(leaves));
    std::vector<float> sum(n);
    for (size_t leaf = 0; leaf < leaves; ++leaf) {
      const std::vector<float> values = leaf_values(n, leaf);
      Buffer<float> operand(values, shift), out(n, shift);
      const bool last = leaf + 1 == leaves;
      ASSERT_EQ(tree_push({.values = operand.data(),
                           .counter = counter.data(),
                           .last = last,
                           .levels = at.data(),
                           .level_count = level_count,
                           .out = !last      ? nullptr
                                  : in_place ? operand.data()
                                             : out.data(),
                           .n = static_cast<int64_t>(n)},
                          nullptr),
                cudaSuccess);
      ASSERT_EQ(counter.at(0), static_cast<int32_t>(leaf));
      ASSERT_EQ(count_leaf(counter.data(), last, nullptr), cudaSuccess);
      ASSERT_EQ(counter.at(0), last ? 0 : static_cast<int32_t>(leaf) + 1);
      if (!last || !in_place) {
        ASSERT_EQ(operand.values(), values);
      }
      if (!last) {
        if (n > 0) expected.push(values.data());
        continue;
      }
      if (n > 0) expected.finish(std::array<const float*, 1>{values.data()}, sum.data());
      ASSERT_EQ((in_place ? operand : out).values(), sum) << leaves << " leaves of " << n;
      ASSERT_EQ(sum, tree(n, 0, leaves));
    }
  }
}

TEST(TreePush, GivesTheBitsOfTheCanonicalSum) {
  for (size_t leaves = 1; leaves <= 16; ++leaves) {
    expect_tree(leaves, 37, 0, leaves % 2 == 0);
    expect_tree(leaves, 37, leaves % 4, leaves % 2 != 0);
  }
  on_host::in_all_orders([] { expect_tree(/*leaves=*/7, 37, 0, /*in_place=*/true); });
  for (const size_t n : {0u, 1u, 3u, 4u, 1023u, 1024u, 1025u, 2600u})
    for (const size_t shift : {0u, 2u}) expect_tree(/*leaves=*/5, n, shift, /*in_place=*/true);
}

TEST(TreePush, OneLevelAddsLeavesAsTheyCome) {
  constexpr size_t kN = 19;
  const Levels level = make_levels(1, kN, 0);
  float* const at = level[0]->data();
  Buffer<int32_t> counter(1);
  std::vector<float> expected = leaf_values(kN, 0);
  for (size_t leaf = 0; leaf < 6; ++leaf) {
    Buffer<float> operand(leaf_values(kN, leaf));
    if (leaf > 0)
      for (size_t i = 0; i < kN; ++i) expected[i] += operand[i];
    const bool last = leaf == 5;
    counter.at(0) = static_cast<int32_t>(leaf);
    ASSERT_EQ(tree_push({.values = operand.data(),
                         .counter = counter.data(),
                         .last = last,
                         .levels = &at,
                         .level_count = 1,
                         .out = last ? operand.data() : nullptr,
                         .n = kN},
                        nullptr),
              cudaSuccess);
    EXPECT_EQ(last ? operand.values() : level[0]->values(), expected) << leaf;
  }
}

/// Every level there can be, full and with gaps: a leaf far along the counter.
TEST(TreePush, MergesUpToTheHighestLevel) {
  constexpr size_t kN = 6;
  const Levels levels = make_levels(kMaxLevels, kN, 0);
  const std::vector<float*> at = pointers(levels);
  Buffer<int32_t> counter(1);
  for (const unsigned leaf : {0xffffu, 0x8000u, 0x7fffu, 0xa5b7u, 0xfff0u})
    for (const bool last : {false, true}) {
      if (leaf == 0xffff && !last) continue;
      for (size_t l = 0; l < kMaxLevels; ++l)
        for (size_t i = 0; i < kN; ++i) levels[l]->at(i) = leaf >> l & 1 ? leaf_values(kN, l)[i] : NAN;
      std::vector<float> expected = leaf_values(kN, 99);
      const size_t ones = static_cast<size_t>(std::countr_one(leaf));
      for (size_t l = 0; l < (last ? kMaxLevels : ones); ++l)
        for (size_t i = 0; i < kN; ++i)
          if (leaf >> l & 1) expected[i] += (*levels[l])[i];
      Buffer<float> operand(leaf_values(kN, 99)), out(kN);
      counter.at(0) = static_cast<int32_t>(leaf);
      ASSERT_EQ(tree_push({.values = operand.data(),
                           .counter = counter.data(),
                           .last = last,
                           .levels = at.data(),
                           .level_count = kMaxLevels,
                           .out = out.data(),
                           .n = kN},
                          nullptr),
                cudaSuccess);
      EXPECT_EQ(last ? out.values() : levels[ones]->values(), expected) << leaf;
      EXPECT_EQ(std::isnan(out[0]), !last);
    }
}

TEST(TreePush, RefusesTooFewLevelsOrTooManyOrASumWithoutAPlace) {
  Buffer<float> value(std::vector<float>{1}), level(1);
  Buffer<int32_t> counter(std::vector<float>{0});
  const std::vector<float*> levels(kMaxLevels + 1, level.data());
  const auto push = [&](bool last, int level_count, float* out) {
    return tree_push({.values = value.data(),
                      .counter = counter.data(),
                      .last = last,
                      .levels = levels.data(),
                      .level_count = level_count,
                      .out = out,
                      .n = 1},
                     nullptr);
  };
  EXPECT_EQ(push(/*last=*/false, 0, nullptr), cudaErrorInvalidValue);  // only a sum of one leaf needs no level
  EXPECT_EQ(push(/*last=*/true, 0, value.data()), cudaSuccess);
  EXPECT_EQ(push(/*last=*/true, 1, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(push(/*last=*/false, kMaxLevels, nullptr), cudaSuccess);
  EXPECT_EQ(push(/*last=*/false, kMaxLevels + 1, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(push(/*last=*/true, -1, value.data()), cudaErrorInvalidValue);
}

TEST(SumInOrder, AddsPieceAfterPiece) {
  for (const size_t count : {1u, 2u, 3u, 5u, 8u, 256u})
    for (const size_t n : {0u, 1u, 5u, 1030u}) {
      if (count == 256 && n > 5) continue;
      for (const size_t shift : {0u, 1u})
        on_host::in_all_orders([&] {
          std::vector<std::unique_ptr<Buffer<float>>> pieces;
          std::vector<const float*> terms;
          std::vector<float> expected(n);
          for (size_t k = 0; k < count; ++k) {
            pieces.push_back(std::make_unique<Buffer<float>>(leaf_values(n, k), shift));
            terms.push_back(pieces.back()->data());
            for (size_t i = 0; i < n; ++i) expected[i] = k == 0 ? (*pieces[k])[i] : expected[i] + (*pieces[k])[i];
          }
          Buffer<float> out(n);
          const auto sum = [&](float* to) {
            return sum_in_order(
                {.terms = terms.data(), .count = static_cast<int>(count), .out = to, .n = static_cast<int64_t>(n)},
                nullptr);
          };
          ASSERT_EQ(sum(out.data()), cudaSuccess);
          EXPECT_EQ(out.values(), expected);
          ASSERT_EQ(sum(pieces[count / 2]->data()), cudaSuccess);  // in the place of a piece
          EXPECT_EQ(pieces[count / 2]->values(), expected);
        });
    }
}

TEST(SumInOrder, RefusesNoPiecesAndTooMany) {
  float x = 0;
  const std::vector<const float*> terms(kMaxTerms + 1, &x);
  for (const int count : {0, -1, kMaxTerms + 1})
    EXPECT_EQ(sum_in_order({.terms = terms.data(), .count = count, .out = &x, .n = 1}, nullptr), cudaErrorInvalidValue);
}

TEST(SumInOrder, NotANumberStaysWithItsElement) {
  Buffer<float> a(numbers(9, 1)), b(numbers(9, 2)), out(9);
  a.at(4) = std::numeric_limits<float>::quiet_NaN();
  const float* const terms[] = {a.data(), b.data()};
  ASSERT_EQ(sum_in_order({.terms = terms, .count = 2, .out = out.data(), .n = 9}, nullptr), cudaSuccess);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(std::isnan(out[i]), i == 4) << i;
}

}  // namespace
}  // namespace ct::kernels
