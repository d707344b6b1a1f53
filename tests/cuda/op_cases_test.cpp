#include "device/cuda.h"
#include "selftest/op_case_checks.h"

namespace ct {
namespace {

/// Enough of them to see scratch or a recording go wrong.
std::vector<OpCase> small_cases() {
  std::vector<OpCase> cases;
  for (const OpCase& c : op_cases()) {
    int64_t elements = 0;
    for (const OpOperand& operand : c.operands) elements += operand.value.shape.stored();
    if (elements < 10000) cases.push_back(c);
  }
  return cases;
}

/// All of them; under AddressSanitizer, where a fiber's switch is slow, the small ones.
std::vector<OpCase> measured_cases() {
#ifdef __SANITIZE_ADDRESS__
  return small_cases();
#else
  return op_cases();
#endif
}

TEST(CudaOpCases, AgreeWithTheirReferencesAndWriteNothingElse) {
  const auto backend = make_cuda_backend({});
  backend->enter_thread();
  for (const OpCase& c : measured_cases()) expect_agreement(*backend, c);
}

TEST(CudaOpCases, LaunchedAgainGiveTheSameBits) {
  const auto backend = make_cuda_backend({});
  backend->enter_thread();
  for (const OpCase& c : small_cases()) expect_repetition(*backend, c);
}

/// A recording of a launch does the same, as often as it is replayed.
TEST(CudaOpCases, ReplayedGiveTheSameBits) {
  const auto backend = make_cuda_backend({});
  backend->enter_thread();
  for (const OpCase& c : small_cases()) {
    SCOPED_TRACE(c.name);
    CaseInMemory in_memory(*backend, c);
    in_memory.launch();
    std::vector<std::vector<unsigned char>> first;
    for (const Guarded& memory : in_memory.memory()) first.push_back(memory.bytes());
    const auto replay = backend->record([&] { in_memory.only_launch(); });
    for (int repetition = 0; repetition < 2; ++repetition) {
      in_memory.launch_by([&] { replay->launch(); });
      for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(in_memory.memory()[i].bytes(), first[i]) << "operand " << i;
    }
  }
}

}  // namespace
}  // namespace ct
