#include "tree_sum.h"

#include <bit>
#include <cmath>
#include <limits>
#include <memory>

#include "buffer.h"

namespace ct::kernels {
namespace {

std::vector<float> leaf_values(size_t n, size_t leaf) { return numbers(n, 31 + static_cast<uint32_t>(leaf)); }

/// Every level there can be, full and with gaps: a leaf far along the counter.
TEST(TreePush, MergesUpToTheHighestLevel) {
  constexpr size_t kN = 6;
  std::vector<std::unique_ptr<Buffer<float>>> levels;
  std::vector<float*> at;
  for (int l = 0; l < kMaxLevels; ++l) {
    levels.push_back(std::make_unique<Buffer<float>>(kN));
    at.push_back(levels.back()->data());
  }
  Buffer<int32_t> counter(1);
  for (const unsigned leaf : {0u, 0xffffu, 0x8000u, 0x7fffu, 0xa5b7u, 0xfff0u})
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

TEST(SumInOrder, AddsPieceAfterPiece) {
  for (const size_t count : {1u, 2u, 3u, 5u, 8u, 256u})
    for (const size_t n : {0u, 1u, 5u, 1030u}) {
      if (count == 256 && n > 5) continue;
      for (const size_t shift : {0u, 1u}) {
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
      }
    }
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
