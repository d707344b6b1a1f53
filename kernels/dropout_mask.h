// Dropout's mask (graph/dropout_key.h) for kernels in which a warp has rows of elements by 16 bytes a lane.
#pragma once

#include "dropout.h"

namespace ct::kernels {

/// Of the pack of kSize elements (4 or 8) that a lane has, the lanes one after the other from element `first` on, a
/// multiple of kDropoutGroup: bit k is set if element k is kept. All lanes of the warp call it; each draws one block
/// of numbers, which others need.
template <int kSize>
__device__ __forceinline__ uint32_t kept_of_pack(const DropoutMask& mask, const DropoutKey& key, int64_t first) {
  static_assert(kDropoutGroup == 128 && kDropoutLanes == 16 && (kSize == 4 || kSize == 8));
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = lane * kSize / static_cast<int>(kDropoutGroup);  // of those that the warp has: one, or two
  const int at = lane * kSize % static_cast<int>(kDropoutGroup);     // of the pack, in its group
  const int drawn = kSize == 8 ? lane : lane % static_cast<int>(kDropoutLanes);
  const auto words = dropout_words(key, mask.number, first / kDropoutGroup * kDropoutLanes + drawn);
  uint32_t votes = 0;  // of the blocks, on the number that the pack's elements use
#pragma unroll
  for (int i = 0; i < static_cast<int>(kDropoutGroup / kDropoutLanes); ++i) {
    const uint32_t all = __ballot_sync(kAllLanes, dropout_number(words, i) < mask.below);
    if (i == at / static_cast<int>(kDropoutLanes)) votes = all;
  }
  return votes >> (group * static_cast<int>(kDropoutLanes) + at % static_cast<int>(kDropoutLanes));
}

/// The element as dropout leaves it, rounded to T.
template <class T>
__device__ __forceinline__ float dropped(const DropoutMask& mask, uint32_t kept, int k, float x) {
  return to_float(from_float<T>((kept >> k & 1) != 0 ? x * mask.scale : 0));
}

}  // namespace ct::kernels
