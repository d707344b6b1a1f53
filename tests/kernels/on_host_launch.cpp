// Operands travel around the launches of the host's stand-in as they do on a GPU (on_gpu/launch.cpp).
#include <cuda_runtime.h>

#include <utility>

#include "kernel_memory.h"

namespace ct::kernels {
namespace {

on_host::LaunchHook run = nullptr;

cudaError_t launch(cudaStream_t stream, cudaError_t configuration, on_host::KernelLaunch kernel) {
  before_launch();
  return run(stream, configuration, std::move(kernel));
}

}  // namespace

void follow_launches() {
  if (on_host::launch_hook != launch) run = std::exchange(on_host::launch_hook, launch);
}

}  // namespace ct::kernels
