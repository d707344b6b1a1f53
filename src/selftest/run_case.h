// One case on one device against its reference.
#pragma once

#include "selftest/op_cases.h"

namespace ct {

class CaseInMemory;

struct CaseResult {
  /// What is wrong first, in a line: operand, element, found, expected, tolerance. Empty: the device agrees.
  std::string problem;
  /// The largest error of an element that need not be exact, as a share of its tolerance.
  double worst = 0;
};

/// Prepares and launches the case. Results must lie within their tolerances and nothing else may be written: not the
/// operands that are only read, no byte around them, no pad but with zeros.
CaseResult run_case(Backend& backend, const OpCase& c);

// What run_case() does, for several launches of one case:

/// NaN in place of every number that is written and that reads() does not name: whoever reads it shows.
OpCase with_unread_numbers_spoiled(OpCase c);
/// What the last launch left in memory against the references.
CaseResult compare(const Backend& backend, const OpCase& c, const CaseInMemory& in_memory);

/// What layers of this case compute with; f16 where there is a loss scale.
DType compute_type(const OpCase& c);
/// Does the device compute in this case's type at all? All do in f32 and bf16, if slowly.
bool runs_on(const Backend& backend, const OpCase& c);

}  // namespace ct
