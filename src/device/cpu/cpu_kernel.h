// A prepared operation on the CPU: a function that, given addresses, returns the function to launch.
#pragma once

#include <optional>
#include <type_traits>

#include "device/backend.h"

namespace ct::cpu {

/// Addresses of an operation's operands while it is bound.
class Operands {
 public:
  explicit Operands(const Resolve& resolve) : resolve_(resolve) {}
  template <class T>
  T* at(ValueId id) const {
    return id == kNone ? nullptr : resolve_(id).as<T>();
  }
  float* f32(ValueId id) const { return at<float>(id); }
  int32_t* i32(ValueId id) const { return at<int32_t>(id); }
  uint8_t* u8(ValueId id) const { return at<uint8_t>(id); }

 private:
  const Resolve& resolve_;
};

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

}  // namespace ct::cpu
