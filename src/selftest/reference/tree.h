// The canonical sum of leaves (comm/reduction/tree_sum.h) from its recursive definition, and leaves whose sum depends
// on the order of additions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace ct {

inline std::vector<float> reference_tree(std::span<const std::vector<float>> leaves) {
  if (leaves.size() == 1) return leaves[0];
  const size_t left = std::bit_floor(leaves.size() - 1);
  std::vector<float> sum = reference_tree(leaves.first(left));
  const std::vector<float> rest = reference_tree(leaves.subspan(left));
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
  return sum;
}

/// Leaf `index`: numbers of many magnitudes, or with `integers` small integers, whose sums are exact.
inline std::vector<float> random_leaf(int64_t index, int64_t numel, bool integers = false) {
  Random random(7, Purpose::init, static_cast<uint64_t>(index));
  std::vector<float> leaf(static_cast<size_t>(numel));
  for (float& x : leaf) {
    const uint32_t bits = random.next_u32();
    const float mantissa = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f;
    x = integers ? static_cast<float>(static_cast<int32_t>(bits % 201) - 100)
                 : std::ldexp(mantissa, static_cast<int>(bits % 16));
  }
  return leaf;
}

inline std::vector<std::vector<float>> random_leaves(int64_t count, int64_t numel, bool integers = false) {
  std::vector<std::vector<float>> leaves;
  for (int64_t i = 0; i < count; ++i) leaves.push_back(random_leaf(i, numel, integers));
  return leaves;
}

}  // namespace ct
