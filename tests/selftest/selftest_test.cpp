// selftest on devices that are wrong.
#include "selftest/selftest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files.h"

namespace ct {
namespace {

/// Spoils operand `at`, one byte at `byte`, after the launch.
class SpoiledKernel final : public Kernel {
 public:
  SpoiledKernel(std::unique_ptr<Kernel> kernel, ValueId at, int64_t byte)
      : kernel_(std::move(kernel)), at_(at), byte_(byte) {}
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void bind(const Resolve& operands, std::byte* workspace) override {
    kernel_->bind(operands, workspace);
    spoiled_ = operands(at_).data + byte_;
  }
  void launch() override {
    kernel_->launch();
    *spoiled_ ^= std::byte{0x40};
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  ValueId at_;
  int64_t byte_;
  std::byte* spoiled_ = nullptr;
};

/// Adds its three results to what was there, which it reads.
class AddingKernel final : public Kernel {
 public:
  explicit AddingKernel(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}
  void bind(const Resolve& operands, std::byte* workspace) override {
    kernel_->bind(operands, workspace);
    results_ = {reinterpret_cast<float*>(operands(1).data), 3};
  }
  void launch() override {
    const std::vector<float> before(results_.begin(), results_.end());
    kernel_->launch();
    for (size_t i = 0; i < before.size(); ++i) results_[i] += before[i];
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::span<float> results_;
};

/// A CPU whose ReLU is wrong, or cannot be prepared.
class WrongBackend final : public Backend {
 public:
  ValueId at = kNone;  // an operand of ReLU to spoil
  int64_t byte = 0;
  bool adds = false;  // ReLU, to what was there
  bool missing = false;
  bool f16 = false;

  std::string description() const override { return "wrong"; }
  std::string problem_with(DType type) const override { return type == DType::f16 && !f16 ? "no f16 here" : ""; }
  Memory allocate(size_t bytes) override { return cpu_->allocate(bytes); }
  bool is_host() const override { return true; }
  Memory allocate_host(size_t bytes) override { return cpu_->allocate_host(bytes); }
  Memory pin(std::span<std::byte> memory) override { return cpu_->pin(memory); }
  void copy(void* to, const void* from, size_t bytes) override { cpu_->copy(to, from, bytes); }
  void clear(void* at, size_t bytes) override { cpu_->clear(at, bytes); }
  void wait() override {}
  std::unique_ptr<Event> make_event() override { return cpu_->make_event(); }
  std::unique_ptr<Instant> make_instant() override { return cpu_->make_instant(); }
  std::unique_ptr<Kernel> prepare(const ComputeOp& op, const std::vector<Value>& values) override {
    if (missing) fail(ExitCode::usage, "libexample.so was not found");
    auto kernel = cpu_->prepare(op, values);
    if (adds) return std::make_unique<AddingKernel>(std::move(kernel));
    if (at == kNone || !std::holds_alternative<Activate>(op)) return kernel;
    return std::make_unique<SpoiledKernel>(std::move(kernel), at, byte);
  }
  std::unique_ptr<Replay> record(const std::function<void()>&) override { return nullptr; }

 private:
  std::unique_ptr<Backend> cpu_ = make_cpu_backend();
};

/// ReLU of {1, -2, 0.5}, and an addition.
std::vector<OpCase> cases(DType type = DType::f32) {
  const auto value = [&](std::vector<double> before, std::vector<double> after) {
    const std::vector<double> tolerance(after.size(), 1e-3);
    return OpOperand{.value = {.shape = {3}, .dtype = type},
                     .before = std::move(before),
                     .after = std::move(after),
                     .tolerance = tolerance};
  };
  return {{.name = "relu of three",
           .op = Activate{Activation::relu, 0, 1},
           .operands = {value({1, -2, 0.5}, {}), value({}, {1, 0, 0.5})}},
          {.name = "add of three",
           .op = Add{0, 1, 2},
           .operands = {value({1, 2, 3}, {}), value({1, 1, 1}, {}), value({}, {2, 3, 4})}}};
}

SelftestReport report_of(Backend& backend, const std::vector<OpCase>& table) {
  return run_selftest(backend, table, [](const OpCase&, const CaseResult&) {});
}

TEST(Selftest, ARightDeviceAgrees) {
  WrongBackend backend;
  int seen = 0;
  const SelftestReport report = run_selftest(backend, cases(), [&](const OpCase&, const CaseResult&) { ++seen; });
  EXPECT_EQ(report.failure, "");
  EXPECT_EQ(seen, 2);
  ASSERT_EQ(report.ops.size(), 2u);
  EXPECT_EQ(report.ops[0].op, "relu");
  EXPECT_EQ(report.total().cases, 2);
  EXPECT_EQ(report.total().failed, 0);
}

TEST(Selftest, AWrongElementIsNamedWithWhatWasFoundAndExpected) {
  WrongBackend backend;
  backend.at = 1;
  backend.byte = 11;  // the third element's sign and exponent
  const SelftestReport report = report_of(backend, cases());
  EXPECT_EQ(report.ops[0].failed, 1);
  EXPECT_EQ(report.ops[1].failed, 0);
  EXPECT_EQ(report.total().failed, 1);
  EXPECT_TRUE(report.failure.starts_with("relu of three: operand 1: element 2 is ")) << report.failure;
  EXPECT_NE(report.failure.find(", expected 0.5 +- 0.001"), std::string::npos) << report.failure;
  EXPECT_GT(report.total().worst, 1);
}

TEST(Selftest, WritingElsewhereIsFound) {
  WrongBackend backend;
  backend.at = 0;
  EXPECT_EQ(report_of(backend, cases()).failure, "relu of three: operand 0 was changed");
  backend.at = 1;
  backend.byte = 12;
  EXPECT_EQ(report_of(backend, cases()).failure, "relu of three: memory around operand 1 was written");
  backend.byte = -1;
  EXPECT_EQ(report_of(backend, cases()).failure, "relu of three: memory around operand 1 was written");
}

TEST(Selftest, AnOperandThatTheOperationDoesNotNameIsFound) {
  std::vector<OpCase> table = cases();
  table[0].operands.push_back({.value = {.shape = {3}}});
  WrongBackend backend;
  EXPECT_EQ(report_of(backend, table).failure, "");
  backend.at = 2;
  EXPECT_EQ(report_of(backend, table).failure,
            "relu of three: operand 2 is used without reads() or writes() saying so");
}

TEST(Selftest, AReadThatTheOperationDoesNotNameIsFound) {
  std::vector<OpCase> table = {cases()[0]};
  table[0].operands[1].before = {1, 2, 3};
  table[0].operands[1].after = {2, 2, 3.5};
  WrongBackend backend;
  backend.adds = true;
  EXPECT_TRUE(report_of(backend, table).failure.starts_with("relu of three: operand 1: element 0 is nan"));
}

TEST(Selftest, AMissingLibraryFailsItsCases) {
  WrongBackend backend;
  backend.missing = true;
  const SelftestReport report = report_of(backend, cases());
  EXPECT_EQ(report.total().failed, 2);
  EXPECT_EQ(report.failure, "relu of three: libexample.so was not found");
}

TEST(Selftest, TypesThatTheDeviceDoesNotComputeInAreSkipped) {
  WrongBackend backend;
  EXPECT_EQ(report_of(backend, cases(DType::f16)).skipped, 2);
  backend.f16 = true;
  backend.missing = true;  // the CPU knows no f16
  const SelftestReport report = report_of(backend, cases(DType::f16));
  EXPECT_EQ(report.skipped, 0);
  EXPECT_EQ(report.total().types, std::vector{DType::f16});
}

TEST(Selftest, EveryOperationHasCasesInEveryTypeThatItComputesIn) {
  std::set<std::string_view> operations, halves;
  for (const OpCase& c : op_cases()) {
    operations.insert(name_of(Op(c.op)));
    if (compute_type(c) == DType::f16) halves.insert(name_of(Op(c.op)));
  }
  // Each activation and its gradient have names of their own.
  EXPECT_EQ(operations.size(), std::variant_size_v<ComputeOp> - 2 + 2 * kActivations.size());
  // All but edits, which are of whole numbers, and what is f32 always: sums of gradients, their norm, statistics,
  // averages, LAMB's moments, ratios of trust, Muon's momentum and what is made of it, and routings.
  EXPECT_EQ(halves.size(), operations.size() - 10);
}

template <class... Ops>
std::vector<std::string> names_of(std::variant<Ops...>*) {
  std::vector<std::string> names;
  ((std::derived_from<Ops, Update> ? void() : void(names.emplace_back(Ops::kName))), ...);
  return names;
}

/// How fast each operation is on a GPU can be looked up: tests/bench/kernel_benchmark/ has a row of its name. Those of
/// optimizers it makes of the table of rules.
TEST(Selftest, EveryOperationHasABenchmarkRow) {
  // Rows of the kernel that does it; convolutions are a library's, and `bench --ops` times them, as the products of
  // fff.
  const std::map<std::string, std::string> done_by = {{"flatten", "copy_rows"},    {"flatten_grad", "copy_rows"},
                                                      {"take_token", "copy_rows"}, {"take_token_grad", "copy_rows"},
                                                      {"fff", "tree_gelu"},        {"orthogonalize", "muon_begin"},
                                                      {"conv2d", "cuDNN"},         {"conv2d_grad_w", "cuDNN"},
                                                      {"conv2d_grad_x", "cuDNN"}};
  std::string rows;
  const auto tests = std::filesystem::path(__FILE__).parent_path().parent_path();
  for (const auto& file : std::filesystem::directory_iterator(tests / "bench" / "kernel_benchmark"))
    rows += read_file(file.path());
  for (const std::string& name : names_of(static_cast<ComputeOp*>(nullptr))) {
    const std::string row = done_by.contains(name) ? done_by.at(name) : name;
    EXPECT_TRUE(row == "cuDNN" || rows.find('"' + row + '"') != std::string::npos ||
                rows.find('"' + row + '+') != std::string::npos)
        << "no row of " << name;
  }
}

}  // namespace
}  // namespace ct
