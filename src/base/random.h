// Counter-based random numbers: every number is keyed by its purpose, not by the rank or the time of the draw (Salmon
// et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011: Philox4x32-10). Kernels include this too.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace ct {

/// Philox4x32-10: four 32-bit words from a 128-bit counter and a 64-bit key.
constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c[0], b = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// The purpose of a number. Results depend on the values, so they must never change.
enum class Purpose : uint32_t {
  init = 1,
  shuffle = 2,
  augment = 3,
  synthetic = 4,
  validation = 5,
  dropout = 6,
  routing = 7,
  balance = 8
};

/// A stream of numbers for one (seed, purpose, a, b); cheap to construct, without state to save or restore.
class Random {
 public:
  Random(uint64_t seed, Purpose purpose, uint64_t a = 0, uint32_t b = 0)
      : key_(seed),
        counter_{0, static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32) ^ (b << 8),
                 static_cast<uint32_t>(purpose) ^ (b & 0xff000000u)} {}

  uint32_t next_u32() {
    if (used_ == 4) {
      block_ = philox(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }
  uint64_t next_u64() {
    const uint64_t low = next_u32();
    return low | uint64_t{next_u32()} << 32;
  }
  /// Uniform in [0, n), with negligible bias for n < 2^32 (multiply-shift on 64 bits).
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((static_cast<unsigned __int128>(next_u64()) * n) >> 64); }
  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }
  /// Of the standard normal distribution (Box & Muller, 1958); 1 - u keeps the logarithm from zero.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  uint64_t key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace ct
