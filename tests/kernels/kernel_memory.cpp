#include "kernel_memory.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>

namespace ct::kernels {
namespace {

/// Memories belong to the test's thread; others may launch, too.
std::atomic<size_t> launches = 0;

/// The memories that the host has written since the last launch.
struct Written {
  std::mutex mutex;
  std::set<KernelMemory*> memories;
};

/// Never freed: operands of static tests may outlive whatever would free it.
Written& written() {
  static auto& all = *new Written;
  return all;
}

void note_written(KernelMemory* memory) {
  const std::lock_guard lock(written().mutex);
  written().memories.insert(memory);
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
  note_written(this);
}

KernelMemory::~KernelMemory() {
  {
    const std::lock_guard lock(written().mutex);
    written().memories.erase(this);
  }
  try {
    expect(cudaFree(device_), "cudaFree");
  } catch (const std::exception& found) {  // by the stand-in: a write outside
    ADD_FAILURE() << found.what();
  }
}

const std::byte* KernelMemory::read() const { return fetch(); }

std::byte* KernelMemory::write() {
  std::byte* const host = fetch();
  note_written(this);
  return host;
}

std::byte* KernelMemory::fetch() const {
  if (seen_ != launches) expect(cudaMemcpy(host_.get(), device_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
  seen_ = launches;
  return host_.get();
}

void before_launch() {
  const std::lock_guard lock(written().mutex);
  for (KernelMemory* memory : written().memories)
    expect(cudaMemcpy(memory->device_, memory->host_.get(), memory->bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
  written().memories.clear();
  ++launches;
}

}  // namespace ct::kernels
