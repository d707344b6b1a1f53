// The basis of all kernels in this folder: the CUDA runtime, a launch function, and access to shared memory.
//
// Kernels use only a subset of CUDA that tests/kernels/on_host/ can execute on a CPU, so nvcc and g++ compile the same
// text: grids and blocks of one to three dimensions; shared memory through shared_memory(); __syncthreads, __syncwarp,
// shuffles and votes with full or partial masks; atomics; vector types; bf16 and f16 scalars; cache hints as intrinsics
// (__ldg, __ldcs, __stcs). No inline PTX except in mma.h, which has matrix products on tensor cores; no cooperative
// groups, no <<<>>>, no early return of a thread before its block's last barrier.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#ifndef __CUDACC__
namespace on_host {
unsigned char* shared_memory();  // tests/kernels/on_host/run.h
}
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

/// Launches kernel(args...) in the stream; an empty grid launches nothing. Returns the status of cudaLaunchKernelEx.
template <class... Parameters, class... Args>
cudaError_t launch(void (*kernel)(Parameters...), const Grid& grid, cudaStream_t stream, Args... args) {
  if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return cudaSuccess;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(args)...);
}

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

template <class T>
constexpr T divide_up(T n, T by) {
  return (n + by - 1) / by;
}

}  // namespace ct::kernels
