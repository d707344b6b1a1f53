// Ranks with a GPU each: collectives by NCCL, which only enter the backend's stream. Without CUDA at build time
// (no_nccl.cpp) make_nccl refuses.
//
// The host does not wait in launch(), push() or finish() of a Reduction, so it learns of a failure elsewhere: a thread
// of the communicator looks every 100 ms whether a rank has called abort() or NCCL has found an error, and then aborts
// NCCL, which ends what waits in the stream. **Results after that are worthless, and no wait for the stream says so**:
// having waited, the host asks aborted(), which is true from then on; barrier() (and any other call) throws why.
//
// Recordings of collectives, and the collectives, must be gone before the communicator's finish(), and before the
// communicator where there is none, for NCCL waits for that. finish() ends NCCL in order; the control plane goes on,
// for it is its owner's to finish. Recorded launches count their traffic once, when they are recorded.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>

#include "comm/communicator.h"
#include "device/backend.h"
#include "device/cuda/library.h"

namespace ct {

struct NcclOptions {
  cuda::LibraryPlaces places = {};  // of libnccl.so.2
};

/// What a sum of `elements` f32 that the rank owns takes of the GPU's memory: for what it receives a slot a rank at
/// most, in memory that all sums share (device/scratch.h), and for its partial sums, if it keeps any, one a level, and
/// a counter.
inline int64_t nccl_slot_bytes(int64_t slots, int64_t elements) {
  return slots * elements * static_cast<int64_t>(sizeof(float));
}
inline constexpr size_t kNcclCounterBytes = sizeof(int32_t);

/// How many partial sums, each as long as what the rank owns, a reduction of at most `leaves` leaves keeps in the GPU's
/// memory.
inline int nccl_sum_levels(int ranks, int64_t leaves, SumOrder order) {
  const int64_t exchanges = (leaves + ranks - 1) / ranks;
  // The leaves of one exchange make a subtree of the step's tree if there are 2^k of them, or no others: that is summed
  // first, and counts as one leaf. With another number of ranks each of them is a leaf.
  const bool by_rank =
      order == SumOrder::canonical && exchanges > 1 && !std::has_single_bit(static_cast<uint64_t>(ranks));
  const int64_t nodes = by_rank ? leaves : exchanges;
  if (nodes <= 1) return 0;
  return order == SumOrder::any ? 1 : std::bit_width(static_cast<uint64_t>(nodes - 1));
}

/// Why make_nccl() would find no library to use, in a line; empty: there is one.
std::string nccl_problem(const cuda::LibraryPlaces& places);

/// NCCL between the GPUs of the ranks of `control`, which carries the control plane. `backend` is a GPU's; both outlive
/// the communicator, whose memory is the backend's. Collective. Throws ExitCode::usage where the library is missing or
/// older than 2.18, or where two ranks have one GPU; peer where ranks do not find each other.
std::unique_ptr<Communicator> make_nccl(Backend& backend, Communicator& control, const NcclOptions& options);

}  // namespace ct
