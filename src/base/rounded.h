// Numbers as Python rounds them.
#pragma once

#include <cmath>

namespace ct {

/// To the nearest whole number, halves to the even one.
inline int rounded(double value) { return static_cast<int>(std::nearbyint(value)); }

}  // namespace ct
