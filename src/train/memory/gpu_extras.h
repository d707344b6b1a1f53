// What a run on a GPU needs beside the values of its programs (plan/memory.h): on the GPU the tables of updates and the
// buffers in which NCCL's sums receive, and in the host's memory what travels to and from the GPU.
//
// Counted from the programs as engine/, comm/ and device/cuda/ allocate it. Not counted is what CUDA and its libraries
// take for themselves: most of it is taken when the device is opened, before anybody asks what is free, but kernels are
// loaded when they are first used, and NCCL connects its channels then.
#pragma once

#include "plan/memory.h"

namespace ct {

/// Bytes of a rank.
struct GpuExtras {
  // Parts of the GPU's memory.
  int64_t updates = 0;       // tables
  int64_t received = 0;      // the slots of NCCL's sums
  int64_t partial_sums = 0;  // of NCCL's sums, between micro-steps
  // Parts of the host's memory.
  int64_t mirrors = 0;  // page-locked: state, inputs and results, gradients of offloaded updates
  int64_t staged = 0;   // the host's side of collectives where it is not NCCL that runs them; without partial sums
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
