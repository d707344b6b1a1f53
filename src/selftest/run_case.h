// Runs one case on one device and compares it with its reference.
#pragma once

#include "selftest/op_cases.h"

namespace ct {

class CaseInMemory;

struct CaseResult {
  /// The first fault, in one line: operand, element, found, expected, tolerance. Empty: none.
  std::string problem;
  /// The largest error of an element that need not be exact, as a share of its tolerance.
  double worst = 0;
};

/// Prepares and launches the case. Results must be within their tolerances. The launch must not write anything else: no
/// operands that are only read, no bytes around operands, and only zeros into pads.
CaseResult run_case(Backend& backend, const OpCase& c);

// The steps of run_case(), for several launches of one case:

/// Replaces written numbers that reads() does not list by NaN, so that a kernel that reads them gives a wrong result.
OpCase with_unread_numbers_spoiled(OpCase c);
/// Compares the memory after the last launch with the references.
CaseResult compare(const Backend& backend, const OpCase& c, const CaseInMemory& in_memory);

/// The compute type of this case; f16 if there is a loss scale.
DType compute_type(const OpCase& c);
/// Does the device support this case's type? All support f32 and bf16, possibly slowly.
bool runs_on(const Backend& backend, const OpCase& c);

}  // namespace ct
