// Tests look at what a kernel wrote as soon as its launch returns, and want to know whose launch it was that failed:
// the linker puts this in the place of CUDA's launch (--wrap, kernels/CMakeLists.txt).
#include <cuda_runtime.h>

#include "kernel_memory.h"

void ct::kernels::follow_launches() {}  // the linker has seen to it

extern "C" {

cudaError_t __real_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** args);

cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** args) {
  ct::kernels::before_launch();
  const cudaError_t error = __real_cudaLaunchKernelExC(config, kernel, args);
  return error == cudaSuccess ? cudaDeviceSynchronize() : error;
}
}
