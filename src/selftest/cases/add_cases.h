// The test cases of every operation; layers have cases for each type that they compute in. op_cases() calls these
// functions for all alternatives of ComputeOp: an operation without cases does not link.
#pragma once

#include "selftest/cases/case.h"

namespace ct::cases {

#define CT_ADD_CASES(Op) void add_cases(Cases&, Of<Op>, DType);
CT_LAYER_OPS(CT_ADD_CASES)
#undef CT_ADD_CASES
#define CT_ADD_CASES(Op) void add_cases(Cases&, Of<Op>);
CT_OTHER_OPS(CT_ADD_CASES)
#undef CT_ADD_CASES

// All optimizers.
void add_update_cases(Cases& cases, std::string_view operation);
template <class Rule>
void add_cases(Cases& cases, Of<RuleUpdate<Rule>>) {
  add_update_cases(cases, Rule::kName);
}

}  // namespace ct::cases
