#include "kernel_memory.h"

#include <cuda_runtime.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace ct::kernels {
namespace {

using Unused = std::map<size_t, std::vector<void*>>;

/// Never freed: operands of static tests may outlive whatever would free it, and the process ends anyway.
Unused& unused() {
  static Unused& pieces = *new Unused;
  return pieces;
}

}  // namespace

void* take_kernel_memory(size_t bytes) {
  std::vector<void*>& pieces = unused()[bytes];
  if (!pieces.empty()) {
    void* const piece = pieces.back();
    pieces.pop_back();
    return piece;
  }
  void* piece = nullptr;
  // With unified addressing, which every 64-bit system has, the device's address is the same.
  const cudaError_t error = cudaHostAlloc(&piece, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
  if (error != cudaSuccess)
    throw std::runtime_error("no page-locked memory for " + std::to_string(bytes) +
                             " bytes: " + cudaGetErrorString(error));
  return piece;
}

void give_kernel_memory(void* at, size_t bytes) { unused()[bytes].push_back(at); }

}  // namespace ct::kernels
