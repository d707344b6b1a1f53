// Collectives by NCCL for ranks with one GPU each, enqueued in the backend's stream. In a build without CUDA
// (no_nccl.cpp) make_nccl throws.
//
// The host does not wait in launch(), push() or finish() of a Reduction, so these calls do not report failures. Every
// 100 ms a thread of the communicator checks whether a rank has called abort() or NCCL has reported an error, and then
// aborts NCCL, which ends the waiting work in the stream. **Later results are invalid, and waiting for the stream does
// not report this**: after a wait the host must check aborted(), which then is true; barrier() and all other calls
// throw the cause.
//
// Collectives and recordings of them must be destroyed before the communicator's finish(), or, without finish(), before
// the communicator, because NCCL waits for this. finish() finalises NCCL but not the control plane, whose owner
// finishes it. A recorded launch counts its traffic once, during recording.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>

#include "comm/communicator.h"
#include "device/backend.h"
#include "device/cuda/library.h"

namespace ct {

struct NcclOptions {
  cuda::LibraryPlaces places = {};  // where libnccl.so.2 is searched
};

/// The GPU memory of a sum of `elements` f32 that the rank owns: receive slots, at most one per rank, in memory that
/// all sums share (device/scratch.h); and, if it keeps partial sums, one for each level and a counter.
inline int64_t nccl_slot_bytes(int64_t slots, int64_t elements) {
  return slots * elements * static_cast<int64_t>(sizeof(float));
}
inline constexpr size_t kNcclCounterBytes = sizeof(int32_t);

/// The number of partial sums, each as long as the rank's shard, that a reduction of at most `leaves` leaves keeps in
/// GPU memory.
inline int nccl_sum_levels(int ranks, int64_t leaves, SumOrder order) {
  const int64_t exchanges = (leaves + ranks - 1) / ranks;
  // The leaves of one exchange make a subtree of the step's tree if there are 2^k of them, or no others: the subtree is
  // summed first and counts as one leaf. Otherwise each of them is a leaf.
  const bool by_rank =
      order == SumOrder::canonical && exchanges > 1 && !std::has_single_bit(static_cast<uint64_t>(ranks));
  const int64_t nodes = by_rank ? leaves : exchanges;
  if (nodes <= 1) return 0;
  return order == SumOrder::any ? 1 : std::bit_width(static_cast<uint64_t>(nodes - 1));
}

/// The reason, in one line, why make_nccl() would find no usable library; empty: there is one.
std::string nccl_problem(const cuda::LibraryPlaces& places);

/// NCCL between the GPUs of the ranks of `control`, which provides the control plane. `backend` must be a GPU's; it
/// allocates the communicator's memory. Both must outlive the communicator. Collective. Throws ExitCode::usage if the
/// library is missing or older than 2.18, or if two ranks have one GPU, and ExitCode::peer if ranks cannot connect.
std::unique_ptr<Communicator> make_nccl(Backend& backend, Communicator& control, const NcclOptions& options);

}  // namespace ct
