// What a mixture of experts draws: the numbers of src/graph/routing_draws.h.
#pragma once

#include "dropout.h"
#include "random.h"

namespace ct::kernels {

__device__ __forceinline__ Philox routing_words(const DropoutKey& key, int number, int64_t block) {
  constexpr uint32_t kPurpose = 7;  // ct::Purpose::routing
  return philox({{static_cast<uint32_t>(block), static_cast<uint32_t>(key.step),
                  (static_cast<uint32_t>(key.step >> 32) & 0xFF) | static_cast<uint32_t>(key.micro_batch) << 8,
                  kPurpose | static_cast<uint32_t>(number) << 8}},
                key.seed);
}
/// The middle of one of 2^23 equal parts of 0..1.
__device__ __forceinline__ float uniform_of(uint32_t word) { return (static_cast<float>(word >> 9) + 0.5f) * 0x1p-23f; }

}  // namespace ct::kernels
