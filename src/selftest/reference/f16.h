// IEEE 754's binary16 from its definition: 5 bits of exponent, 10 of mantissa, rounded to nearest, ties to even.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ct::reference {

inline double from_f16(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == 31)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}
inline uint16_t to_f16(double x) {
  const unsigned sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return static_cast<uint16_t>(sign | 0x7E00);
  if (std::abs(x) >= 65520) return static_cast<uint16_t>(sign | 0x7C00);
  int exponent = -24;  // zero's
  if (x != 0) std::frexp(x, &exponent);
  const int unit = std::max(exponent - 11, -24);  // exponent of the last place
  // The mantissa's leading one, and a rounding to the next power of two, increment the exponent by carry.
  const auto units = static_cast<unsigned>(std::nearbyint(std::ldexp(std::abs(x), -unit)));
  return static_cast<uint16_t>(sign | (static_cast<unsigned>(unit + 24) * 1024 + units));
}

}  // namespace ct::reference
