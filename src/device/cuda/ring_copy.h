// Copies of rings as kernels take them.
#pragma once

#include "device/backend.h"
#include "kernels/copy.h"

namespace ct::cuda {

inline kernels::RingCopyArgs ring_args(const RingCopy& copy) {
  return {.value = copy.value,
          .ring = copy.ring,
          .to_ring = copy.to == RingCopy::To::ring,
          .bytes = static_cast<int64_t>(copy.bytes),
          .slots = static_cast<int32_t>(copy.slots),
          .turn = copy.turn};
}

}  // namespace ct::cuda
