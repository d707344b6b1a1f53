// The plain copy in device memory that benchmarks measure bandwidth with: what a kernel that reads and writes each byte
// once can reach.
#pragma once

#include "launch.h"

namespace ct::kernels {

/// Any sizes and alignments, 16 bytes at a time where both pointers are aligned to as many; the ranges must not
/// overlap.
struct CopyArgs {
  const void* from;
  void* to;
  int64_t bytes;
};

/// Runs in the stream. Moves 2 * bytes: each is read once and written once. cudaErrorInvalidValue: a negative size, or
/// one of 2^31 blocks (1024 accesses each) or more.
cudaError_t copy(const CopyArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
