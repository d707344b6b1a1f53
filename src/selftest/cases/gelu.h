// How far GELU may be off: as its kernels say (device/cpu/kernels/gelu.h), of which erfcf() on a GPU is no worse.
#pragma once

#include <cmath>

#include "selftest/reference/gelu.h"

namespace ct::cases {

inline double gelu_tolerance(double x) { return std::abs(x) * (4e-7 + 0x1p-23 * reference::normal_cdf(x)); }
/// Of the gradient of x for dy = 1.
inline double gelu_gradient_tolerance() { return 5e-7 + 0x1p-22; }

}  // namespace ct::cases
