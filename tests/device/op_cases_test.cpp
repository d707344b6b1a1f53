#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/case_memory.h"
#include "device/kernels_testing.h"

namespace ct {
namespace {

void expect_values(const OpOperand& operand, const Guarded& memory) {
  bool finite = true;
  for (size_t i = 0; i < operand.after.size(); ++i) {
    const double expected = operand.after[i], found = memory.element(i);
    const double tolerance = operand.tolerance.empty() ? 0 : operand.tolerance[i];
    finite = finite && std::isfinite(expected);
    const bool same = std::isfinite(expected) ? std::abs(found - expected) <= tolerance
                                              : found == expected || (std::isnan(found) && std::isnan(expected));
    if (same) continue;
    ADD_FAILURE() << "element " << i << " is " << found << ", expected " << expected << " +- " << tolerance;
    return;
  }
  EXPECT_TRUE(!finite || memory.pads_are_zero());
}

class OpCases : public cpu::KernelTest {};
CT_KERNEL_SUITE(OpCases);

TEST_P(OpCases, AgreeWithTheirReferencesAndWriteNothingElse) {
  const auto backend = make_cpu_backend();
  backend->enter_thread();
  for (const OpCase& c : op_cases()) {
    SCOPED_TRACE(c.name);
    CaseInMemory in_memory(*backend, c);
    in_memory.launch();
    const Ids written = writes(Op(c.op));
    for (size_t i = 0; i < c.operands.size(); ++i) {
      SCOPED_TRACE("operand " + std::to_string(i));
      EXPECT_TRUE(c.operands[i].after.empty() ||
                  std::count(written.begin(), written.end(), static_cast<ValueId>(i)) > 0)
          << "changes without writes() saying so";
      const Guarded& memory = in_memory.memory()[i];
      EXPECT_TRUE(memory.intact());
      if (!c.operands[i].after.empty()) {
        expect_values(c.operands[i], memory);
        continue;
      }
      Guarded before(c.operands[i].value, false);
      before.fill(c.operands[i].before);
      EXPECT_EQ(memory.bytes(), before.bytes()) << "was changed";
    }
    EXPECT_TRUE(in_memory.workspace().intact());
  }
}

TEST_P(OpCases, LaunchedAgainGiveTheSameBits) {
  const auto backend = make_cpu_backend();
  backend->enter_thread();
  for (const OpCase& c : op_cases()) {
    SCOPED_TRACE(c.name);
    CaseInMemory in_memory(*backend, c);
    in_memory.launch();
    std::vector<std::vector<unsigned char>> first;
    for (const Guarded& memory : in_memory.memory()) first.push_back(memory.bytes());
    in_memory.launch(std::vector<double>(in_memory.workspace_bytes(), 1));  // whatever the scratch holds
    for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(in_memory.memory()[i].bytes(), first[i]) << "operand " << i;
  }
}

/// The references of gradients are written by hand; the complex step ties them to the forward references.
TEST(OpReferences, GradientsAreDerivativesOfTheForwardReferences) {
  for (const OpCase& c : op_cases())
    for (const GradientCheck& g : c.gradients) {
      SCOPED_TRACE(c.name);
      const std::vector<double>& gradient = c.operands[static_cast<size_t>(g.gradient)].after;
      ASSERT_EQ(gradient.size(), g.x.size());
      const size_t some = g.x.size() > 2000 ? 3 : 17;
      for (size_t i = 0; i < g.x.size(); i += 1 + g.x.size() / some)
        EXPECT_NEAR(reference::derivative(g.loss, g.x, i), gradient[i], 1e-11 * (1 + std::abs(gradient[i]))) << i;
    }
}

TEST(OpReferences, CasesHaveNamesOfTheirOwn) {
  std::vector<std::string> names;
  for (const OpCase& c : op_cases()) names.push_back(c.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  EXPECT_EQ(twice, names.end()) << *twice;
}

}  // namespace
}  // namespace ct
