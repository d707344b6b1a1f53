#include "selftest/op_cases.h"

#include <variant>

#include "selftest/cases/add_cases.h"

namespace ct {
namespace {

using cases::Cases;
using cases::Of;

/// Layers come in every type that they compute with.
template <class Op>
void add_cases_of(Cases& all, Of<Op> kind) {
  using cases::add_cases;
  if constexpr (requires { add_cases(all, kind, DType::f32); })
    for (const DType type : cases::kComputeTypes) add_cases(all, kind, type);
  else
    add_cases(all, kind);
}

template <class... Ops>
Cases cases_of_all(Of<std::variant<Ops...>>) {
  Cases all;
  (add_cases_of(all, Of<Ops>{}), ...);
  return all;
}

}  // namespace

const std::vector<OpCase>& op_cases() {
  static const Cases cases = cases_of_all(Of<ComputeOp>{});
  return cases;
}

}  // namespace ct
