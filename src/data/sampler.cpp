#include "data/sampler.h"

#include <numeric>
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

}  // namespace ct
