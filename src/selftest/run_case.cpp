#include "selftest/run_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "selftest/case_memory.h"
#include "selftest/reference/activation.h"
#include "selftest/reference/rounding.h"

namespace ct {
namespace {

const OpOperand& operand_of(const OpCase& c, ValueId id) { return c.operands[static_cast<size_t>(id)]; }

double largest(const std::vector<double>& values) {
  double found = 0;
  for (const double v : values) found = std::max(found, std::abs(v));
  return found;
}

/// What results of libraries on a GPU may miss beside the tolerance, where layers compute in 16 bits: convolutions
/// round before they add a bias, and weight gradients on their way to f32 (device/cuda/convolution.h); a matrix product
/// may round its bias (device/cuda/matmul.h), which an activation multiplies by its slope.
double library_rounding(const OpCase& c, ValueId id, double expected) {
  if (const auto* op = std::get_if<Conv2dGradW>(&c.op))
    return op->dw == id ? reference::rounding_to(operand_of(c, op->x).value.dtype, expected) : 0;
  if (const auto* op = std::get_if<Conv2d>(&c.op); op != nullptr && op->b != kNone)
    return reference::rounding_to(operand_of(c, id).value.dtype,
                                  std::abs(expected) + largest(operand_of(c, op->b).before));
  if (const auto* op = std::get_if<Linear>(&c.op); op != nullptr && op->b != kNone)
    return reference::activation_errors(op->activation, 0).slope *
           reference::rounding_to(operand_of(c, id).value.dtype, largest(operand_of(c, op->b).before));
  return 0;
}

}  // namespace

OpCase with_unread_numbers_spoiled(OpCase c) {
  const Ids read = reads(Op(c.op));
  for (size_t i = 0; i < c.operands.size(); ++i) {
    OpOperand& operand = c.operands[i];
    const DType type = operand.value.dtype;
    if (std::ranges::count(read, static_cast<ValueId>(i)) > 0 || type == DType::u8 || type == DType::i32) continue;
    for (size_t e = 0; e < std::min(operand.before.size(), operand.after.size()); ++e)
      if (operand.before[e] != operand.after[e]) operand.before[e] = std::numeric_limits<double>::quiet_NaN();
  }
  return c;
}

namespace {

class Comparison {
 public:
  Comparison(const Backend& backend, const OpCase& c, const CaseInMemory& in_memory)
      : backend_(backend), case_(c), in_memory_(in_memory) {}

  CaseResult run() {
    const Ids read = reads(Op(case_.op)), written = writes(Op(case_.op));
    for (const ValueId id : in_memory_.touched())
      if (std::ranges::count(read, id) + std::ranges::count(written, id) == 0)
        problem("operand ", id, " is used without reads() or writes() saying so");
    for (size_t i = 0; i < case_.operands.size(); ++i) {
      const auto id = static_cast<ValueId>(i);
      const Guarded& memory = in_memory_.memory()[i];
      const OpOperand& operand = case_.operands[i];
      if (!operand.after.empty() && std::count(written.begin(), written.end(), id) == 0)
        problem("operand ", i, " changes without writes() saying so");
      if (!memory.intact()) problem("memory around operand ", i, " was written");
      if (!operand.after.empty()) {
        compare_values(id, memory);
        continue;
      }
      Guarded before(operand.value, /*written=*/false);
      before.fill(operand.before);
      if (memory.bytes() != before.bytes()) problem("operand ", i, " was changed");
    }
    if (!in_memory_.workspace().intact()) problem("memory around the workspace was written");
    return std::move(result_);
  }

 private:
  template <class... Parts>
  void problem(const Parts&... parts) {
    if (result_.problem.empty()) result_.problem = str(parts...);
  }

  void compare_values(ValueId id, const Guarded& memory) {
    const OpOperand& operand = operand_of(case_, id);
    bool finite = true;
    for (size_t i = 0; i < operand.after.size(); ++i) {
      const double expected = operand.after[i], found = memory.element(i);
      double tolerance = operand.tolerance.empty() ? 0 : operand.tolerance[i];
      if (!backend_.is_host()) tolerance += library_rounding(case_, id, expected);
      finite = finite && std::isfinite(expected);
      const double error = std::abs(found - expected);
      const bool same = std::isfinite(expected) ? error <= tolerance
                                                : found == expected || (std::isnan(found) && std::isnan(expected));
      if (!same) problem("operand ", id, ": element ", i, " is ", found, ", expected ", expected, " +- ", tolerance);
      if (std::isfinite(error) && tolerance > 0) result_.worst = std::max(result_.worst, error / tolerance);
    }
    if (finite && !memory.pads_are_zero()) problem("pads of operand ", id, " are not zero");
  }

  const Backend& backend_;
  const OpCase& case_;
  const CaseInMemory& in_memory_;
  CaseResult result_;
};

}  // namespace

CaseResult compare(const Backend& backend, const OpCase& c, const CaseInMemory& in_memory) {
  return Comparison(backend, c, in_memory).run();
}

CaseResult run_case(Backend& backend, const OpCase& c) {
  const OpCase spoiled = with_unread_numbers_spoiled(c);
  CaseInMemory in_memory(backend, spoiled);
  in_memory.launch();
  return compare(backend, spoiled, in_memory);
}

DType compute_type(const OpCase& c) {
  const auto has_loss_scale = [](const auto& op) {
    if constexpr (requires { op.loss_scale; }) return op.loss_scale != kNone;
    return false;
  };
  DType type = std::visit(has_loss_scale, c.op) ? DType::f16 : DType::f32;
  for (const OpOperand& operand : c.operands)
    if (operand.value.dtype == DType::bf16 || operand.value.dtype == DType::f16) type = operand.value.dtype;
  return type;
}

bool runs_on(const Backend& backend, const OpCase& c) {
  return compute_type(c) != DType::f16 || backend.problem_with(DType::f16).empty();
}

}  // namespace ct
