// Tests every operation in every type on one device against the scalar references.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "selftest/run_case.h"

namespace ct {

/// The results of one kind of operation.
struct OpReport {
  std::string op;
  std::vector<DType> types;
  int cases = 0, failed = 0;
  double worst = 0;  // CaseResult::worst of all
};

struct SelftestReport {
  std::vector<OpReport> ops;
  int skipped = 0;      // cases in a type that the device does not support
  std::string failure;  // the first failed case and its fault; empty: none
  /// The sum over all kinds, without a name.
  OpReport total() const;
};

/// Calls `each` after each case. A missing library fails the cases that need it; a lost device and out of memory are
/// thrown.
SelftestReport run_selftest(Backend& backend, const std::vector<OpCase>& cases,
                            const std::function<void(const OpCase&, const CaseResult&)>& each);

}  // namespace ct
