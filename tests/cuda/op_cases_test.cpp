// Every case on the stand-in, which runs the threads of a kernel in any order that it is told.
#include "device/cuda.h"
#include "run.h"
#include "selftest/op_case_checks.h"

namespace ct {
namespace {

using on_host::Options;

template <class... Ops>
std::vector<std::string_view> names_of(std::type_identity<std::variant<Ops...>>) {
  return {Ops::kName...};
}
std::string_view operation_of(const OpCase& c) {
  return std::visit([]<class Op>(const Op&) { return Op::kName; }, c.op);
}

/// Of the others one launch must do.
bool is_small(const OpCase& c) {
  int64_t elements = 0;
  for (const OpOperand& operand : c.operands) elements += operand.value.shape.stored();
  return elements < 10000;
}

/// Launches of one case: each agrees with the references, writes nothing else, and has the bits of the first.
class Launches {
 public:
  Launches(Backend& backend, const OpCase& c) : backend_(backend), case_(c) {}
  ~Launches() { on_host::options() = {}; }

  /// `by` does what CaseInMemory::only_launch() does.
  void expect(const std::string& what, const Options& order, CaseInMemory& in_memory, const std::function<void()>& by,
              const std::vector<double>& workspace = {}) {
    on_host::options() = order;
    in_memory.launch_by(by, workspace);
    EXPECT_EQ(compare(backend_, case_, in_memory).problem, "") << what;
    if (first_.empty()) first_ = bytes_of(in_memory);
    EXPECT_TRUE(bytes_of(in_memory) == first_) << what << ": other bits";
  }

 private:
  Backend& backend_;
  const OpCase& case_;
  std::vector<std::vector<unsigned char>> first_;
};

void expect_same_by_all_launches(Backend& backend, const OpCase& original) {
  SCOPED_TRACE(original.name);
  using Order = Options::Order;
  const OpCase c = with_unread_numbers_spoiled(original);
  Launches launches(backend, c);
  CaseInMemory aligned(backend, c);
  launches.expect("launched", {Order::shuffled, 1, 0xff, 3}, aligned, [&] { aligned.only_launch(); });
  if (!is_small(c)) return;
  CaseInMemory unaligned(backend, c, Placement::off_by_an_element);
  launches.expect("unaligned", {Order::shuffled, 2, 0x7b, 2}, unaligned, [&] { unaligned.only_launch(); });
  const auto recording = backend.record([&] { aligned.only_launch(); });
  const std::vector<double> ones(aligned.workspace_bytes(), 1);
  launches.expect(
      "replayed backward", {Order::backward, 0, 0x7b}, aligned, [&] { recording->launch(); }, ones);
  launches.expect("replayed forward", {Order::forward, 0, 0xff}, aligned, [&] { recording->launch(); });
}

class CudaOpCases : public testing::TestWithParam<std::string_view> {};

/// In any order of threads and blocks, several at a time or not, aligned or not, recorded or not, and whatever the
/// scratch holds.
TEST_P(CudaOpCases, AgreeWithTheirReferencesToTheSameBits) {
  const auto backend = make_cuda_backend({});
  backend->enter_thread();
  for (const OpCase& c : op_cases()) {
    if (operation_of(c) != GetParam()) continue;
#ifdef __SANITIZE_ADDRESS__
    if (!is_small(c)) continue;  // the change from thread to thread is slow
#endif
    expect_same_by_all_launches(*backend, c);
  }
}

INSTANTIATE_TEST_SUITE_P(, CudaOpCases, testing::ValuesIn(names_of(std::type_identity<ComputeOp>())),
                         [](const auto& op) { return std::string(op.param); });

}  // namespace
}  // namespace ct
