// The memory of kernel tests' operands: the device's, an allocation each, so that memory checkers see where it ends,
// and the host's copy of it.
#pragma once

#include <cstddef>
#include <memory>

namespace ct::kernels {

class KernelMemory {
 public:
  /// `bytes` > 0, aligned to 256 on the device and to 16 on the host, and zero. Throws std::runtime_error with CUDA's
  /// words.
  explicit KernelMemory(size_t bytes);
  ~KernelMemory();
  KernelMemory(const KernelMemory&) = delete;
  KernelMemory& operator=(const KernelMemory&) = delete;

  void* device() const { return device_; }
  /// As the last launch has left it.
  const std::byte* read() const;
  /// The same, to be changed before the next launch, which finds it so.
  std::byte* write();

 private:
  friend void before_launch();

  std::byte* fetch() const;

  size_t bytes_;
  mutable size_t seen_;  // the number of launches of which the host's side knows
  void* device_ = nullptr;
  std::unique_ptr<std::byte[]> host_;
};

/// What the host has written goes to the device: called before each launch, which must be done when it returns.
void before_launch();
/// Sees to that; by who launches (on_gpu/launch.cpp, on_host_launch.cpp).
void follow_launches();

}  // namespace ct::kernels
