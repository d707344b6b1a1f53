// The basis of all kernels in this folder: the CUDA runtime, a launch function, and access to shared memory.
//
// Kernels use only a subset of CUDA that tests/kernels/on_host/ can execute on a CPU, so nvcc and g++ compile the same
// source code: grids and blocks of one to three dimensions; shared memory through shared_memory(); __syncthreads,
// __syncwarp, shuffles and votes with full or partial masks; atomics; vector types; bf16 and f16 scalars; cache hints
// as intrinsics (__ldg, __ldcs, __stcs). No inline PTX except in mma.h, which has matrix products on tensor cores; no
// cooperative groups, no <<<>>>, no early return of a thread before its block's last barrier.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#ifndef __CUDACC__
namespace on_host {
unsigned char* shared_memory();  // tests/kernels/on_host/run.h
void grid_dependency_synchronize();
}  // namespace on_host
#endif

namespace ct::kernels {

/// The block's shared memory from byte `offset` on, which must be a multiple of T's alignment. It is aligned to 16
/// bytes, has the size given to launch(), and is not initialised.
template <class T>
__device__ __forceinline__ T* shared_memory(size_t offset = 0) {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char block_shared_memory[];
  return reinterpret_cast<T*>(block_shared_memory + offset);
#else
  return reinterpret_cast<T*>(on_host::shared_memory() + offset);
#endif
}

struct Grid {
  dim3 blocks, threads;
  size_t shared_bytes = 0;  // at most 48 KiB
};

inline bool is_empty(const Grid& grid) { return grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0; }

inline cudaLaunchConfig_t launch_config(const Grid& grid, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = stream;
  return config;
}

/// Launches kernel(args...) in the stream; an empty grid launches nothing. Returns the status of cudaLaunchKernelEx.
template <class... Parameters, class... Args>
cudaError_t launch(void (*kernel)(Parameters...), const Grid& grid, cudaStream_t stream, Args... args) {
  if (is_empty(grid)) return cudaSuccess;
  const cudaLaunchConfig_t config = launch_config(grid, stream);
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(args)...);
}

/// launch() of a kernel that may start before the previous kernel of the stream has ended (programmatic dependent
/// launch, from sm_90 on), which hides most of the time between two small kernels. Every thread of the kernel must call
/// wait_for_previous() before it accesses memory.
template <class... Parameters, class... Args>
cudaError_t launch_early(void (*kernel)(Parameters...), const Grid& grid, cudaStream_t stream, Args... args) {
  if (is_empty(grid)) return cudaSuccess;
  int device = 0, capability = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (const cudaError_t error = cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, device);
      error != cudaSuccess)
    return error;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = launch_config(grid, stream);
  config.attrs = &early;
  config.numAttrs = capability >= 9 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(args)...);
}

/// Lets the next kernel of the stream start, if it was launched early, and waits until the previous one has ended and
/// its writes are visible. (The kernels before the previous one have ended too: it waited for them.)
__device__ __forceinline__ void wait_for_previous() {
#ifndef __CUDACC__
  on_host::grid_dependency_synchronize();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

template <class T>
constexpr T divide_up(T n, T by) {
  return (n + by - 1) / by;
}

}  // namespace ct::kernels
