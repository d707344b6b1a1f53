// Rounding to the types that layers compute in.
#pragma once

#include <cmath>

#include "selftest/reference/bf16.h"
#include "selftest/reference/f16.h"
#include "tensor/tensor.h"

namespace ct::reference {

/// x rounded to bf16 or f16; for other types x itself.
inline double rounded(DType type, double x) {
  if (type == DType::bf16) return rounded_to_bf16(x);
  return type == DType::f16 ? from_f16(to_f16(x)) : x;
}

/// The largest error of rounded(): half of the distance between neighbours. f16's subnormal numbers are 2^-24 apart.
inline double rounding_to(DType type, double x) {
  if (type == DType::bf16) return std::abs(x) * 0x1p-8;
  return type == DType::f16 ? std::abs(x) * 0x1p-11 + 0x1p-25 : 0;
}

}  // namespace ct::reference
