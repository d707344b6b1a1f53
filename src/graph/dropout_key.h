// The key of dropout masks: the seed and the number of the micro-batch. It is in device memory with the micro-batch's
// images, so each replay of a recorded step draws new masks. There is no state to count or save: the number of a
// micro-batch is known on every rank, after skipped steps and after a resume.
//
// Elements form groups of 128. Element i of a group belongs to block i % 16 of the group. Blocks are counted through
// all groups of the operation. Block b is the four words of Philox for the counter below: eight numbers of 16 bits, the
// lower half of a word first. Element i uses number i / 16 of its block, and is kept if that number is below
// keep_below(p). So sixteen adjacent elements come from sixteen lanes, and a mask costs half a word per element.
//
// Kernels include this too; the functions that they call are constexpr.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "base/random.h"

namespace ct {

/// The key of a micro-batch.
struct DropoutKey {
  uint64_t seed = 0;
  int64_t step = 0;         // of the run, including skipped steps; the lower 40 bits are used
  int64_t micro_batch = 0;  // of the step, over all ranks; the lower 24 bits are used
};

inline constexpr int64_t kDropoutGroup = 128, kDropoutLanes = 16;

inline uint32_t keep_below(double p) { return static_cast<uint32_t>(std::lround((1 - p) * 65536)); }

/// The counter of an operation's first block; its first word is the block's number.
constexpr std::array<uint32_t, 4> dropout_counter(const DropoutKey& key, int number) {
  return {0, static_cast<uint32_t>(key.step),
          (static_cast<uint32_t>(key.step >> 32) & 0xFF) | static_cast<uint32_t>(key.micro_batch) << 8,
          static_cast<uint32_t>(Purpose::dropout) | static_cast<uint32_t>(number) << 8};
}

/// Block `block` of an operation, and number 0..7 of it.
constexpr std::array<uint32_t, 4> dropout_words(const DropoutKey& key, int number, int64_t block) {
  std::array<uint32_t, 4> counter = dropout_counter(key, number);
  counter[0] = static_cast<uint32_t>(block);
  return philox(counter, key.seed);
}
constexpr uint32_t dropout_number(const std::array<uint32_t, 4>& words, int i) {
  return words[static_cast<size_t>(i / 2)] >> (i % 2 * 16) & 0xFFFF;
}

/// Does the mask keep this element?
inline bool dropout_keeps(const DropoutKey& key, int number, double p, int64_t element) {
  const std::array<uint32_t, 4> words =
      dropout_words(key, number, element / kDropoutGroup * kDropoutLanes + element % kDropoutLanes);
  return dropout_number(words, static_cast<int>(element % kDropoutGroup / kDropoutLanes)) < keep_below(p);
}

}  // namespace ct
