#include "data/sampler.h"

#include <numeric>
#include <unordered_map>
#include <utility>

#include "base/random.h"

namespace ct {

std::vector<uint32_t> permutation(uint64_t seed, int64_t epoch, uint32_t n, bool shuffle) {
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  if (!shuffle) return order;
  Random random(seed, Purpose::shuffle, static_cast<uint64_t>(epoch));
  for (uint32_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

std::vector<uint32_t> balanced_draws(uint64_t seed, int64_t epoch, int64_t n,
                                     const std::vector<std::vector<uint32_t>>& by_class) {
  Random random(seed, Purpose::balance, static_cast<uint64_t>(epoch));
  const auto any_of = [&](const auto& list) -> const auto& {
    return list[random.below(static_cast<uint32_t>(list.size()))];
  };
  std::vector<uint32_t> draws;
  draws.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) draws.push_back(any_of(any_of(by_class)));
  return draws;
}

std::vector<uint32_t> earlier_occurrences(std::span<const uint32_t> order) {
  std::unordered_map<uint32_t, uint32_t> seen;
  std::vector<uint32_t> counts;
  counts.reserve(order.size());
  for (const uint32_t image : order) counts.push_back(seen[image]++);
  return counts;
}

}  // namespace ct
