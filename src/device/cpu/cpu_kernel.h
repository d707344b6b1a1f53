// A prepared operation on the CPU: a function that, given addresses, returns the function to launch.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>

#include "device/operands.h"

namespace ct::cpu {

/// `bind(operands, workspace)` returns the launch function.
template <class Bind>
class CpuKernel final : public Kernel {
 public:
  CpuKernel(size_t workspace_bytes, Bind bind) : workspace_bytes_(workspace_bytes), bind_(std::move(bind)) {}
  size_t workspace_bytes() const override { return workspace_bytes_; }
  void bind(const Resolve& resolve, std::byte* workspace) override {
    launch_.emplace(bind_(Operands(resolve), reinterpret_cast<float*>(workspace)));
  }
  void launch() override { (*launch_)(); }

 private:
  size_t workspace_bytes_;
  Bind bind_;
  std::optional<std::invoke_result_t<Bind, const Operands&, float*>> launch_;
};

template <class Bind>
std::unique_ptr<Kernel> make_kernel(Bind bind) {
  return std::make_unique<CpuKernel<Bind>>(0, std::move(bind));
}
template <class Bind>
std::unique_ptr<Kernel> make_kernel(size_t workspace_bytes, Bind bind) {
  return std::make_unique<CpuKernel<Bind>>(workspace_bytes, std::move(bind));
}

/// A kernel that calls run(args), with the operands' addresses among `args` (Operands::put), and where it is one of
/// them, a workspace of so many bytes.
template <class Args, class Op>
std::unique_ptr<Kernel> one_call(void (*run)(const Args&), const Op& op, const std::type_identity_t<Args>& args,
                                 size_t workspace_bytes = 0) {
  return make_kernel(workspace_bytes, [=](const Operands& at, float* workspace) {
    Args a = at.put(op, args);
    if constexpr (requires { a.workspace; }) a.workspace = reinterpret_cast<decltype(a.workspace)>(workspace);
    return [=] { run(a); };
  });
}

}  // namespace ct::cpu
