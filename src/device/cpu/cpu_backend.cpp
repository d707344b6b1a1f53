// The CPU as a backend: one core a rank, no threads of its own.
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "device/cpu/convolution.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels/update.h"
#include "device/cpu/layers.h"

namespace ct {
namespace {

class CpuBackend final : public Backend {
 public:
  std::string description() const override {
    const std::string library = cpu::convolution_library();
    return "cpu, " + cpu::instruction_set() + (library.empty() ? "" : ", " + library);
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
      fail(ExitCode::memory, "out of memory: ", bytes,
           " bytes more are needed; use a smaller micro-batch or fewer ranks");
    if (length >= kHuge) madvise(at, length, MADV_HUGEPAGE);
    return {static_cast<std::byte*>(at), bytes, [length](std::byte* p) { munmap(p, length); }};
  }

  std::unique_ptr<Kernel> prepare(const ComputeOp& op, const std::vector<Value>& values) override {
    return std::visit([&](const auto& kind) { return cpu::prepare(kind, cpu::Shapes(values)); }, op);
  }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace ct
