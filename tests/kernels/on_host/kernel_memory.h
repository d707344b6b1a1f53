// The memory of kernel tests' operands: here the host's own, each piece by itself, as AddressSanitizer wants it.
#pragma once

#include <memory>

namespace ct::kernels {

template <class T>
using KernelMemory = std::allocator<T>;

}  // namespace ct::kernels
