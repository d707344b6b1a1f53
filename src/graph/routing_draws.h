// What a mixture of experts draws, keyed like dropout (graph/dropout_key.h): by the seed and the number of the
// micro-batch, the operation's number among those that draw so, and an element, so that neither ranks nor a resume nor
// recomputation change it. A block of four words of Philox belongs to each pair of a row and an expert, or to four
// neighbours that jitter. Kernels include this too: what they call is constexpr.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "graph/dropout_key.h"

namespace ct {

inline constexpr int64_t kMostExperts = 64;

constexpr std::array<uint32_t, 4> routing_words(const DropoutKey& key, int number, int64_t block) {
  std::array<uint32_t, 4> counter = dropout_counter(key, number);
  counter[0] = static_cast<uint32_t>(block);
  counter[3] = static_cast<uint32_t>(Purpose::routing) | static_cast<uint32_t>(number) << 8;
  return philox(counter, key.seed);
}

/// The middle of one of 2^23 equal parts of 0..1.
constexpr float uniform_of(uint32_t word) { return (static_cast<float>(word >> 9) + 0.5f) * 0x1p-23f; }

/// Noise of Gumbel's distribution, whose largest sum with logits falls on each as often as their softmax says. The
/// element is row * experts + expert.
inline float gumbel_noise(const DropoutKey& key, int number, int64_t element) {
  return -std::log(-std::log(uniform_of(routing_words(key, number, element)[0])));
}
/// By which rows are chosen where too many want an expert: the greatest first, of equal ones the first.
inline uint32_t routing_priority(const DropoutKey& key, int number, int64_t element) {
  return routing_words(key, number, element)[1];
}
/// Jitter's factor by an element's word, and of the element at that place in memory.
constexpr float jitter_factor(uint32_t word) {
  constexpr float kMost = 0.01f;
  return 1 + kMost * (2 * uniform_of(word) - 1);
}
inline float jitter_factor(const DropoutKey& key, int number, int64_t element) {
  return jitter_factor(routing_words(key, number, element / 4)[static_cast<size_t>(element % 4)]);
}

}  // namespace ct
