// The images of a step: pure functions of the seed, the same on any number of ranks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ct {

/// 0..n-1 in the random order of one epoch (Fisher-Yates), or in ascending order if shuffle is false.
std::vector<uint32_t> permutation(uint64_t seed, int64_t epoch, uint32_t n, bool shuffle = true);

/// data.sampler: an epoch has each image once (uniform), or draws every class equally often (balanced).
enum class Sampler : uint8_t { uniform, balanced };
constexpr auto words_of(Sampler) { return std::to_array<std::string_view>({"uniform", "balanced"}); }

/// `n` draws of one epoch, with replacement: first a class, each equally likely, then one of its images.
std::vector<uint32_t> balanced_draws(uint64_t seed, int64_t epoch, int64_t n,
                                     const std::vector<std::vector<uint32_t>>& by_class);
/// How often each element occurs before its place.
std::vector<uint32_t> earlier_occurrences(std::span<const uint32_t> order);

/// Step t, micro-batch k (0 .. train_batch/micro_batch - 1 over all ranks) of an epoch's order.
inline std::span<const uint32_t> micro_batch_images(std::span<const uint32_t> order, int64_t train_batch,
                                                    int64_t micro_batch, int64_t step, int64_t k) {
  return order.subspan(step * train_batch + k * micro_batch, micro_batch);
}

}  // namespace ct
