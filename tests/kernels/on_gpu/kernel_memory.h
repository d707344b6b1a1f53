// The memory of kernel tests' operands: the host's, page-locked, which kernels see at the same address.
#pragma once

#include <cstddef>

namespace ct::kernels {

/// `bytes` > 0, aligned to 256. What is given back is kept for the next piece of the same size: page-locking is slow.
/// Throws std::runtime_error with CUDA's words.
void* take_kernel_memory(size_t bytes);
void give_kernel_memory(void* at, size_t bytes);

template <class T>
struct KernelMemory {
  using value_type = T;
  KernelMemory() = default;
  template <class U>
  KernelMemory(const KernelMemory<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(take_kernel_memory(n * sizeof(T))); }
  void deallocate(T* at, size_t n) { give_kernel_memory(at, n * sizeof(T)); }
  bool operator==(const KernelMemory&) const = default;
};

}  // namespace ct::kernels
