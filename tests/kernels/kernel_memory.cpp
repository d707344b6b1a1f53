#include "kernel_memory.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <exception>
#include <set>
#include <stdexcept>
#include <string>

namespace ct::kernels {
namespace {

size_t launches = 0;

/// By the host since the last launch. Never freed: operands of static tests may outlive whatever would free it.
std::set<KernelMemory*>& written() {
  static auto& memories = *new std::set<KernelMemory*>;
  return memories;
}

/// Where a device is lost the test has failed, and says so once more.
void expect(cudaError_t error, const char* call) {
  EXPECT_EQ(error, cudaSuccess) << call << ": " << cudaGetErrorString(error);
}

}  // namespace

KernelMemory::KernelMemory(size_t bytes) : bytes_(bytes), seen_(launches), host_(std::make_unique<std::byte[]>(bytes)) {
  follow_launches();
  const cudaError_t error = cudaMalloc(&device_, bytes);
  if (error != cudaSuccess)
    throw std::runtime_error("no device memory for " + std::to_string(bytes) + " bytes: " + cudaGetErrorString(error));
  written().insert(this);
}

KernelMemory::~KernelMemory() {
  written().erase(this);
  try {
    expect(cudaFree(device_), "cudaFree");
  } catch (const std::exception& found) {  // by the stand-in: a write outside
    ADD_FAILURE() << found.what();
  }
}

const std::byte* KernelMemory::read() const { return fetch(); }

std::byte* KernelMemory::write() {
  std::byte* const host = fetch();
  written().insert(this);
  return host;
}

std::byte* KernelMemory::fetch() const {
  if (seen_ != launches) expect(cudaMemcpy(host_.get(), device_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
  seen_ = launches;
  return host_.get();
}

void before_launch() {
  for (KernelMemory* memory : written())
    expect(cudaMemcpy(memory->device_, memory->host_.get(), memory->bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
  written().clear();
  ++launches;
}

}  // namespace ct::kernels
