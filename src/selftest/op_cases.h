// One table of cases for every operation: operands, their expected values after a launch, and tolerances for rounding.
// Tests of correctness, of reproducibility and of gradients use it; each case has a name and complete operands, so
// benchmarks can time it too.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/backend.h"
#include "selftest/reference/scalar.h"

namespace ct {

using Complex = std::complex<double>;

/// Values are dense, in logical order; pads of rows are zero before and after.
struct OpOperand {
  Value value;
  std::vector<double> before;     // empty: filled with bytes 0xFF, which is NaN or -1
  std::vector<double> after;      // empty: no byte changes
  std::vector<double> tolerance;  // of each element; empty: exact
};

/// The expected value of a gradient must be the derivative of `loss` at `x`, by complex step.
struct GradientCheck {
  ValueId gradient;
  std::vector<double> x;
  std::function<Complex(const std::vector<Complex>&)> loss;
};

struct OpCase {
  std::string name;
  ComputeOp op;
  std::vector<OpOperand> operands;  // by ValueId
  std::vector<GradientCheck> gradients;
};

/// All cases, at least one for every alternative of ComputeOp; an alternative without cases does not compile.
const std::vector<OpCase>& op_cases();

}  // namespace ct
