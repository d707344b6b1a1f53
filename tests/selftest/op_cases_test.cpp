#include <algorithm>
#include <cmath>

#include "device/cpu/kernels/testing.h"
#include "selftest/op_case_checks.h"

namespace ct {
namespace {

class OpCases : public cpu::KernelTest {
 protected:
  OpCases() { backend_->enter_thread(); }
  const std::unique_ptr<Backend> backend_ = make_cpu_backend();
};
CT_KERNEL_SUITE(OpCases);

TEST_P(OpCases, AgreeWithTheirReferencesAndWriteNothingElse) {
  for (const OpCase& c : op_cases())
    if (runs_on(*backend_, c)) expect_agreement(*backend_, c);
}

TEST_P(OpCases, LaunchedAgainGiveTheSameBits) {
  for (const OpCase& c : op_cases())
    if (runs_on(*backend_, c)) expect_repetition(*backend_, c);
}

/// The references of gradients are written by hand; the complex step ties them to the forward references, which are the
/// same whatever the numbers are rounded to.
TEST(OpReferences, GradientsAreDerivativesOfTheForwardReferences) {
  for (const OpCase& c : op_cases()) {
    if (compute_type(c) != DType::f32) continue;
    for (const GradientCheck& g : c.gradients) {
      SCOPED_TRACE(c.name);
      const std::vector<double>& gradient = c.operands[static_cast<size_t>(g.gradient)].after;
      ASSERT_EQ(gradient.size(), g.x.size());
      const size_t some = g.x.size() > 2000 ? 3 : 17;
      for (size_t i = 0; i < g.x.size(); i += 1 + g.x.size() / some)
        EXPECT_NEAR(reference::derivative(g.loss, g.x, i), gradient[i], 1e-11 * (1 + std::abs(gradient[i]))) << i;
    }
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
