// The images of a step: pure functions of the seed, the same on any number of ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ct {

/// 0..n-1 in the random order of one epoch (Fisher-Yates), or in ascending order if shuffle is false.
std::vector<uint32_t> permutation(uint64_t seed, int64_t epoch, uint32_t n, bool shuffle = true);

/// Step t, micro-batch k (0 .. train_batch/micro_batch - 1 over all ranks) of an epoch's order.
inline std::span<const uint32_t> micro_batch_images(std::span<const uint32_t> order, int64_t train_batch,
                                                    int64_t micro_batch, int64_t step, int64_t k) {
  return order.subspan(step * train_batch + k * micro_batch, micro_batch);
}

}  // namespace ct
