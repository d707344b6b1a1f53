// Every operation in every type on one device, against the scalar references.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "selftest/run_case.h"

namespace ct {

/// Cases of one kind of operation that were run.
struct OpReport {
  std::string op;
  std::vector<DType> types;
  int cases = 0, failed = 0;
  double worst = 0;  // CaseResult::worst of all
};

struct SelftestReport {
  std::vector<OpReport> ops;
  int skipped = 0;      // cases in a type that the device does not compute in
  std::string failure;  // the first: its case and what is wrong; empty: all agree
  /// All kinds in one, without a name.
  OpReport total() const;
};

/// Calls `each` after each case. A library that is missing fails the cases that want it; a lost device or want of
/// memory is thrown.
SelftestReport run_selftest(Backend& backend, const std::vector<OpCase>& cases,
                            const std::function<void(const OpCase&, const CaseResult&)>& each);

}  // namespace ct
