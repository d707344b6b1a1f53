// A plain copy in device memory. Benchmarks use its bandwidth as the limit for kernels that read and write each byte
// once.
#pragma once

#include <span>

#include "launch.h"

namespace ct::kernels {

/// Sizes and alignments may have any values; accesses are 16 bytes wide if both pointers are aligned to 16 bytes. The
/// ranges must not overlap.
struct CopyArgs {
  const void* from;
  void* to;
  int64_t bytes;
};

/// Runs in the stream. Moves 2 * bytes: each is read once and written once. cudaErrorInvalidValue: a negative size, or
/// one of 2^31 blocks (1024 accesses each) or more.
cudaError_t copy(const CopyArgs& args, cudaStream_t stream);

/// A copy between `value` and a slot of a ring of `slots` slots of `bytes` each; every launch takes the next slot, so a
/// recorded launch goes round the ring. The ring may be page-locked host memory.
struct RingCopyArgs {
  void *value, *ring;
  bool to_ring;  // from value to the ring, or back
  int64_t bytes;
  int32_t slots;
  int32_t* turn;  // the slot that this launch takes; it writes that of the next launch
};
constexpr size_t kMostRings = 8;
/// Copies of different rings, which a kernel makes besides its own work (ring_slot.h).
struct RingCopies {
  int count = 0;
  RingCopyArgs at[kMostRings] = {};
};
/// Copies of different rings by one kernel, one block each, for small values: a larger one is faster by
/// cudaMemcpyAsync. cudaErrorInvalidValue: more than kMostRings copies, no slots or negative bytes.
cudaError_t ring_copies(std::span<const RingCopyArgs> copies, cudaStream_t stream);

}  // namespace ct::kernels
