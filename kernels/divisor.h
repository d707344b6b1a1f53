// Division of 32-bit indices by a number that only the host knows, without the device's slow division.
#pragma once

#include "launch.h"

namespace ct::kernels {

/// n / d for n < 2^31 and 1 <= d < 2^31 by multiplication (Granlund and Montgomery, 1994).
struct Divisor {
  explicit Divisor(uint32_t d) : by(d) {
    while ((uint64_t{1} << shift) < d) ++shift;
    factor = static_cast<uint32_t>((((uint64_t{1} << shift) - d) << 32) / d + 1);
  }
  __device__ __forceinline__ uint32_t divide(uint32_t n) const {
    return (static_cast<uint32_t>(uint64_t{n} * factor >> 32) + n) >> shift;
  }
  uint32_t by, factor, shift = 0;
};

}  // namespace ct::kernels
