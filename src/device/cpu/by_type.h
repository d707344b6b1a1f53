// Selects a kernel by the stored element type: most kernels are templates over f32 and bf16, stored as uint16_t.
#pragma once

#include <cstdint>
#include <memory>

#include "device/backend.h"

namespace ct::cpu {

/// Calls with_type(float()) or with_type(uint16_t()), according to the stored type.
template <class WithType>
std::unique_ptr<Kernel> by_type(bool bf16, WithType with_type) {
  return bf16 ? with_type(uint16_t()) : with_type(float());
}

}  // namespace ct::cpu
