// The random draws of a mixture of experts, keyed like dropout (graph/dropout_key.h) by the seed, the number of the
// micro-batch, the operation's number among routings and jitters, and an element, so that neither ranks nor a resume
// nor recomputation change them. Each pair of a row and an expert has a block of four words of Philox; Jitter uses one
// block for four adjacent elements. Kernels include this too; the functions that they call are constexpr.
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

/// Gumbel noise: the argmax of logits plus noise has the probabilities of the logits' softmax. The element is row *
/// experts + expert.
inline float gumbel_noise(const DropoutKey& key, int number, int64_t element) {
  return -std::log(-std::log(uniform_of(routing_words(key, number, element)[0])));
}
/// The priority of a row if too many rows select an expert: the greatest first, among equal ones the first row.
inline uint32_t routing_priority(const DropoutKey& key, int number, int64_t element) {
  return routing_words(key, number, element)[1];
}
/// Jitter's factor, from an element's word, and for the element at an index in memory.
constexpr float jitter_factor(uint32_t word) {
  constexpr float kMost = 0.01f;
  return 1 + kMost * (2 * uniform_of(word) - 1);
}
inline float jitter_factor(const DropoutKey& key, int number, int64_t element) {
  return jitter_factor(routing_words(key, number, element / 4)[static_cast<size_t>(element % 4)]);
}

}  // namespace ct
