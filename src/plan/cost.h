// The minimal work of an operation: floating-point operations, and bytes of its operands.
#pragma once

#include "plan/program.h"

namespace ct {

struct Cost {
  double flops = 0;  // two for a multiply-add; of convolutions and matrix products only
  double bytes = 0;  // each operand read or written once
};
Cost cost_of(const Op& op, const std::vector<Value>& values);

}  // namespace ct
