// The cases of every operation, of layers in a type that they compute with. op_cases() calls them for all alternatives
// of ComputeOp: an operation without cases does not link.
#pragma once

#include "selftest/cases/case.h"

namespace ct::cases {

#define CT_ADD_CASES(Op) void add_cases(Cases&, Of<Op>, DType);
CT_LAYER_OPS(CT_ADD_CASES)
#undef CT_ADD_CASES
#define CT_ADD_CASES(Op) void add_cases(Cases&, Of<Op>);
CT_OTHER_OPS(CT_ADD_CASES)
#undef CT_ADD_CASES

void add_cases(Cases&, Of<Adam>);
void add_cases(Cases&, Of<Sgd>);
void add_cases(Cases&, Of<RmsProp>);
void add_cases(Cases&, Of<Lion>);
void add_cases(Cases&, Of<Adagrad>);
void add_cases(Cases&, Of<Lars>);
void add_cases(Cases&, Of<LambMoments>);
void add_cases(Cases&, Of<Lamb>);
void add_cases(Cases&, Of<TrustRatios>);
void add_cases(Cases&, Of<MuonMomentum>);
void add_cases(Cases&, Of<Orthogonalize>);
void add_cases(Cases&, Of<Muon>);

}  // namespace ct::cases
