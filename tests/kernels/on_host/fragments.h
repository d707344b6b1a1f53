// What kernels/mma.h does on tensor cores, by a warp of the host.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "run.h"

namespace on_host {

template <class T>
T half_of(uint32_t pair, int which) {
  const auto bits = static_cast<uint16_t>(pair >> 16 * which);
  T x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// One product after the other is added, in the order of A's columns.
template <class T, class ToFloat>
void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], ToFloat to_float) {
  const Words mine = {a[0] | uint64_t{a[1]} << 32, a[2] | uint64_t{a[3]} << 32, b[0] | uint64_t{b[1]} << 32};
  Words of_lane[32];
  const unsigned lane = gather(mine, of_lane), g = lane / 4, t = lane % 4;
  const auto left = [&](unsigned row, unsigned k) {  // A's element
    const Words& words = of_lane[row % 8 * 4 + k % 8 / 2];
    return to_float(half_of<T>(static_cast<uint32_t>(words[k / 8] >> row / 8 * 32), k % 2));
  };
  const auto right = [&](unsigned k, unsigned column) {  // B's
    const Words& words = of_lane[column * 4 + k % 8 / 2];
    return to_float(half_of<T>(static_cast<uint32_t>(words[2] >> k / 8 * 32), k % 2));
  };
  for (unsigned e = 0; e < 4; ++e)
    for (unsigned k = 0; k < 16; ++k) d[e] = std::fma(left(g + e / 2 * 8, k), right(k, 2 * t + e % 2), d[e]);
}

template <class T>
void load_matrices(bool transposed, uint32_t (&to)[4], const T* row) {
  static_assert(sizeof(T) == 2);
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) throw Error("load_matrices: a row is not aligned to 16 bytes");
  Words of_lane[32];
  const unsigned lane = gather({reinterpret_cast<uintptr_t>(row)}, of_lane), g = lane / 4, t = lane % 4;
  for (unsigned i = 0; i < 4; ++i) {
    uint16_t halves[2];
    for (unsigned e = 0; e < 2; ++e) {
      const unsigned r = transposed ? 2 * t + e : g, column = transposed ? g : 2 * t + e;
      std::memcpy(&halves[e], reinterpret_cast<const T*>(of_lane[i * 8 + r][0]) + column, sizeof halves[e]);
    }
    to[i] = halves[0] | uint32_t{halves[1]} << 16;
  }
}

}  // namespace on_host
