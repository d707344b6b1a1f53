#include "selftest/selftest.h"

#include <algorithm>

#include "base/error.h"

namespace ct {
namespace {

CaseResult result_of(Backend& backend, const OpCase& c) {
  try {
    return run_case(backend, c);
  } catch (const Error& e) {
    if (e.code() != ExitCode::usage) throw;
    return {.problem = e.what()};
  }
}

void count_types(std::vector<DType>& types, DType type) {
  if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
}

}  // namespace

OpReport SelftestReport::total() const {
  OpReport all;
  for (const OpReport& op : ops) {
    for (const DType type : op.types) count_types(all.types, type);
    all.cases += op.cases;
    all.failed += op.failed;
    all.worst = std::max(all.worst, op.worst);
  }
  return all;
}

SelftestReport run_selftest(Backend& backend, const std::vector<OpCase>& cases,
                            const std::function<void(const OpCase&, const CaseResult&)>& each) {
  SelftestReport report;
  for (const OpCase& c : cases) {
    if (!runs_on(backend, c)) {
      ++report.skipped;
      continue;
    }
    const auto name = name_of(Op(c.op));
    auto found = std::ranges::find(report.ops, name, &OpReport::op);
    if (found == report.ops.end()) found = report.ops.insert(found, {.op = std::string(name)});
    OpReport& op = *found;
    const CaseResult result = result_of(backend, c);
    ++op.cases;
    count_types(op.types, compute_type(c));
    op.worst = std::max(op.worst, result.worst);
    if (!result.problem.empty()) {
      ++op.failed;
      if (report.failure.empty()) report.failure = c.name + ": " + result.problem;
    }
    each(c, result);
  }
  return report;
}

}  // namespace ct
