// Variants in the cases of all updates: several slices, copies in every type, a skipped step.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "plan/step_scalars.h"
#include "selftest/cases/case.h"

namespace ct::cases {

struct UpdateProblem {
  int64_t numel;
  bool skip;
  std::optional<DType> copy;  // the type that layers compute in, if copies exist
  StepScalars scalars{.grad_scale = 0.25, .lr = 0.01};
  /// Operands that a skipped step leaves unchanged.
  ValueId add_copy(Case& c, const Doubles& masters, Doubles tolerance) const {
    if (!copy) return kNone;
    const Shape shape{static_cast<int64_t>(masters.size())};
    if (skip) return c.in_out(shape, Doubles(masters.size(), 0.5), Doubles(masters.size(), 0.5), {}, *copy);
    for (size_t i = 0; i < masters.size(); ++i) tolerance[i] += rounding_to(*copy, std::abs(masters[i]) + tolerance[i]);
    return c.out(shape, masters, tolerance, *copy);
  }
  std::string text() const {
    return str(" ", numel, skip ? " skipped" : "", copy ? str(" with a", suffix(*copy), " copy") : "");
  }
};
inline std::vector<UpdateProblem> update_problems() {
  std::vector<UpdateProblem> problems;
  for (const std::optional<DType> copy : {std::optional<DType>(), {DType::f32}, {DType::bf16}, {DType::f16}}) {
    for (const int64_t numel : {1, 93, 128, 5000}) problems.push_back({numel, /*skip=*/false, copy});
    problems.push_back({128, /*skip=*/true, copy});
  }
  for (UpdateProblem& p : problems) p.scalars.skip = p.skip;
  return problems;
}

inline const Shape kScalarsShape = shape_of<StepScalars>();

/// Every update has two slices.
inline std::array<int64_t, 2> slice_sizes(const UpdateProblem& p) { return {p.numel, 17}; }

}  // namespace ct::cases
