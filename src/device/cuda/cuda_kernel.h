// A prepared operation on a GPU: a function that, given addresses, returns the function to launch.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "device/cuda/check.h"
#include "device/cuda/ranges.h"
#include "device/operands.h"
#include "kernels/element.h"

namespace ct::cuda {

inline kernels::Type type_of(DType dtype) {
  check(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16, name_of(dtype), " in a kernel");
  return dtype == DType::f32 ? kernels::Type::f32 : dtype == DType::bf16 ? kernels::Type::bf16 : kernels::Type::f16;
}

/// `bind(operands, workspace)` returns the launch function.
template <class Bind>
class CudaKernel final : public Kernel {
 public:
  CudaKernel(std::string name, size_t workspace_bytes, Bind bind)
      : name_(std::move(name)), workspace_bytes_(workspace_bytes), bind_(std::move(bind)) {}
  size_t workspace_bytes() const override { return workspace_bytes_; }
  void bind(const Resolve& resolve, std::byte* workspace) override {
    launch_.emplace(bind_(Operands(resolve), workspace));
  }
  void launch() override {
    const Range range(name_);
    (*launch_)();
  }

 private:
  std::string name_;
  size_t workspace_bytes_;
  Bind bind_;
  std::optional<std::invoke_result_t<Bind, const Operands&, std::byte*>> launch_;
};

/// A kernel without a workspace: `bind(operands)` returns the launch function.
template <class Bind>
std::unique_ptr<Kernel> make_plain_kernel(const std::string& name, Bind bind) {
  auto without_workspace = [bind = std::move(bind)](const Operands& at, std::byte*) { return bind(at); };
  return std::make_unique<CudaKernel<decltype(without_workspace)>>(name, 0, std::move(without_workspace));
}

}  // namespace ct::cuda
