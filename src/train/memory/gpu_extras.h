// The memory of a run on a GPU in addition to the values of its programs (plan/memory.h): in GPU memory the tables of
// updates and the receive buffers of NCCL's sums, in host memory the buffers for transfers.
//
// Computed from the programs as engine/, comm/ and device/cuda/ allocate it. It does not include the memory of CUDA and
// its libraries: most of that is allocated when the device is opened, before free memory is queried, but kernels are
// loaded on first use, and NCCL connects its channels then.
#pragma once

#include "plan/memory.h"

namespace ct {

/// Bytes of a rank.
struct GpuExtras {
  // GPU memory.
  int64_t updates = 0;       // tables
  int64_t inputs = 0;        // of micro-batches to come
  int64_t received = 0;      // the slots of NCCL's sums
  int64_t partial_sums = 0;  // of NCCL's sums, between micro-steps
  // Host memory.
  int64_t mirrors = 0;  // page-locked: state, inputs and results, gradients of offloaded updates
  int64_t staged = 0;   // host buffers of collectives without NCCL; without partial sums
};

struct GpuExtrasOf {
  const LoweredProgram& train;
  const LoweredProgram& evaluate;
  int64_t exchange_bytes;  // of both plans
  bool nccl;
  bool compares_replicas;
};
GpuExtras gpu_extras(const GpuExtrasOf& what);

}  // namespace ct
