// The least work of an operation: arithmetic, and bytes of its operands.
#pragma once

#include "plan/program.h"

namespace ct {

struct Cost {
  double flops = 0;  // a multiply-add counts two; only convolutions and matrix products count
  double bytes = 0;  // each operand read or written once
};
Cost cost_of(const Op& op, const std::vector<Value>& values);

}  // namespace ct
