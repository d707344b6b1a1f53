// bfloat16 from its definition: the upper half of a float, rounded to nearest, ties to even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace ct::reference {

inline double from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
inline uint16_t to_bf16(double x) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  if (std::isnan(x)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  const uint32_t down = bits >> 16, rest = bits & 0xFFFF;
  return static_cast<uint16_t>(down + (rest > 0x8000 || (rest == 0x8000 && down % 2 == 1)));
}
inline double rounded_to_bf16(double x) { return from_bf16(to_bf16(x)); }

}  // namespace ct::reference
