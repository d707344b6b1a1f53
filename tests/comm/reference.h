// What tests of sums compare with, to the bit.
#pragma once

#include <cstring>
#include <span>

#include "selftest/reference/tree.h"

namespace ct {

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace ct
