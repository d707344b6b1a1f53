// Counter-based random numbers on the device: Philox4x32-10 (Salmon et al., SC 2011), the numbers of src/base/random.h.
#pragma once

#include "launch.h"

namespace ct::kernels {

struct Philox {
  uint32_t word[4];
};

/// Four words from a counter of 128 bits and a key of 64.
__device__ __forceinline__ Philox philox(Philox c, uint64_t key) {
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c.word[0], b = uint64_t{0xCD9E8D57u} * c.word[2];
    c = {{static_cast<uint32_t>(b >> 32) ^ c.word[1] ^ k0, static_cast<uint32_t>(b),
          static_cast<uint32_t>(a >> 32) ^ c.word[3] ^ k1, static_cast<uint32_t>(a)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

}  // namespace ct::kernels
