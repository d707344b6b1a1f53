// The CPU as a backend: one core a rank, no threads of its own.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "base/error.h"
#include "device/cpu/convolution.h"
#include "device/cpu/convolution_algorithms.h"
#include "device/cpu/in_f32.h"
#include "device/cpu/isa.h"
#include "device/cpu/layers.h"
#include "device/cpu/linear.h"

namespace ct {
namespace {

/// Is an operation that oneDNN computes in bf16 left to it, whatever its type?
template <class T>
bool is_librarys(const T& op, const std::vector<Value>& values) {
  if constexpr (requires { cpu::linear_task(op, values); }) return cpu::wants_library(cpu::linear_task(op, values));
  return true;
}

/// Has `op` kernels for the element types of its operands?
template <class T>
bool runs_as_it_is(const T& op, const std::vector<Value>& values) {
  constexpr bool kUpdate = T::kFacts.role == Role::update;
  static_assert(kUpdate + cpu::InBf16::count<T> + cpu::InBf16ByOneDnn::count<T> + cpu::ThroughF32::count<T> == 1,
                "how does this operation run in bf16? See device/cpu/layers.h");
  // Of the operands that may be bf16: all but vectors, gradients of parameters, and integers.
  bool any = false, all = true;
  const auto look = [&](const Ids& ids, bool may_be_f32) {
    for (ValueId id : ids) {
      const Value& value = values[static_cast<size_t>(id)];
      any = any || value.dtype == DType::bf16;
      all = all && (value.dtype != DType::f32 || value.shape.rank() <= 1 || may_be_f32);
    }
  };
  look(op.reads(), false);
  look(op.writes(), T::kFacts.role == Role::gradient);
  if (kUpdate || !any) return true;
  return all && (cpu::InBf16::count<T> ||
                 (cpu::InBf16ByOneDnn::count<T> && cpu::convolution_bf16_problem().empty() && is_librarys(op, values)));
}

/// The CPU is done with everything when the call returns.
class Done final : public Event {
 public:
  void set() override {}
  void wait() override {}
};

class HostInstant final : public Instant {
 public:
  void set() override { at_ = std::chrono::steady_clock::now(); }
  double seconds_since(Instant& earlier) override {
    return std::chrono::duration<double>(at_ - static_cast<HostInstant&>(earlier).at_).count();
  }

 private:
  std::chrono::steady_clock::time_point at_;
};

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options)
      : memory_advice_(options.memory_advice), convolutions_(options, CpuBackend::description(), plans) {}

  std::string description() const override {
    const std::string library = cpu::convolution_library();
    return "cpu, " + cpu::instruction_set() + (library.empty() ? "" : ", " + library);
  }

  std::string problem_with(DType compute) const override {
    if (compute == DType::f16) return "a CPU does not compute in fp16";
    return compute == DType::bf16 ? cpu::convolution_bf16_problem() : "";
  }

  void enter_thread() override {
    cpu::flush_denormals_in_this_thread();
    cpu::convolution_enter_thread();
  }

  /// Fresh pages: zeroed, and huge ones where the kernel has them, since a step walks through all of it.
  Memory allocate(size_t bytes) override {
    constexpr size_t kHuge = size_t{2} << 20;
    const size_t length = (bytes + 4095) / 4096 * 4096 + 4096;  // vector loads may touch the line after the end
    void* at = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
      fail(ExitCode::memory, "out of memory: ", bytes, " bytes more are needed; ", memory_advice_,
           memory_advice_.empty() ? "" : ", or ", "end other programs");
    if (length >= kHuge) madvise(at, length, MADV_HUGEPAGE);
    return {static_cast<std::byte*>(at), bytes, [length](std::byte* p) { munmap(p, length); }};
  }

  bool is_host() const override { return true; }
  Memory allocate_host(size_t bytes) override { return allocate(bytes); }
  Memory pin(std::span<std::byte>) override { return {}; }
  void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void clear(void* at, size_t bytes) override { std::memset(at, 0, bytes); }
  void wait() override {}
  std::unique_ptr<Event> make_event() override { return std::make_unique<Done>(); }
  std::unique_ptr<Instant> make_instant() override { return std::make_unique<HostInstant>(); }
  std::unique_ptr<Replay> record(const std::function<void()>&) override { return nullptr; }

  std::unique_ptr<Kernel> prepare(const ComputeOp& op, const std::vector<Value>& values) override {
    if (!std::visit([&](const auto& kind) { return runs_as_it_is(kind, values); }, op))
      return cpu::prepare_in_f32(op, values, convolutions_);
    return std::visit([&](const auto& kind) { return cpu::prepare(kind, cpu::Shapes(values, convolutions_)); }, op);
  }

 private:
  std::string memory_advice_;
  cpu::ConvolutionAlgorithms convolutions_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) { return std::make_unique<CpuBackend>(options); }

}  // namespace ct
