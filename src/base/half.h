// f16 on the host: rounded to nearest, ties to even; values too large become infinite.
#pragma once

#include <bit>
#include <cstdint>

namespace ct {

inline uint16_t to_f16(float x) { return std::bit_cast<uint16_t>(static_cast<_Float16>(x)); }
inline float from_f16(uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }

}  // namespace ct
