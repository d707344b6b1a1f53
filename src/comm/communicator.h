// Ranks and what they exchange. One process or thread is one rank; there is no other way to be parallel.
//
// Two planes. *Prepared collectives* move training's large buffers: addresses are exchanged once, launch() is called
// every step. *Control calls* (gather, broadcast, barrier) move a few bytes and block. Every rank makes the same calls
// in the same order.
//
// Sums over ranks are reproducible: leaves are added in one canonical tree (comm/tree_sum.h), whatever the number of
// ranks. No wait hangs on a job that has failed: it ends with Error(ExitCode::peer) naming a rank that was lost, or,
// when a rank has called abort(), with an Error of the code given there (so that all ranks end with one code).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ct {

class TreeSum;

/// A collective whose buffers are known: launch() runs it on the calling thread and returns when this rank's result is
/// complete and its input may be overwritten.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual void launch() = 0;
};

/// bounds[r]..bounds[r+1] are the elements that rank r owns; bounds.front() == 0, bounds.back() == the buffer's length.
using ShardBounds = std::vector<int64_t>;
void check_bounds(const ShardBounds& bounds, int ranks, size_t numel);

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// For people: "solo", "4 threads of one process", "2 processes on host a (shared memory)".
  virtual std::string description() const = 0;

  /// Zeroed, 64-byte-aligned memory for buffers of prepared collectives, readable by peers where the transport can.
  /// Collective: same order and size on every rank. Owned by the communicator. Throws ExitCode::memory naming the
  /// store (/dev/shm, TMPDIR) that is too small.
  virtual std::byte* allocate(size_t bytes) = 0;

  /// data (from allocate(), same length everywhere) becomes the tree sum over ranks, rank r being leaf r.
  virtual std::unique_ptr<Collective> all_reduce(std::span<float> data) = 0;
  /// Pushes slice [bounds[rank], bounds[rank + 1]) of every rank's data, in rank order, into this rank's tree (length
  /// of the slice). With `sum` (own slice of `data`, or other memory) these are the last leaves: the tree is finished
  /// into it, in the same pass. Either all ranks give `sum` or none.
  virtual std::unique_ptr<Collective> reduce_scatter(std::span<float> data, ShardBounds bounds, TreeSum& mine,
                                                     float* sum = nullptr) = 0;
  /// Completes data on every rank from the slices that their owners hold.
  virtual std::unique_ptr<Collective> all_gather(std::span<float> data, ShardBounds bounds) = 0;

  /// Control plane. all.size() == size() * mine.size().
  virtual void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  virtual void barrier() = 0;
  /// Marks the whole job as failed: peers leave their waits. True for the first rank that calls it: its error is the
  /// one to print, and its code the one that all ranks end with; false for those that failed because another had.
  virtual bool abort(int exit_code) noexcept = 0;
  /// Has any rank called abort()? Cheap; false where it cannot be known yet.
  virtual bool aborted() const noexcept = 0;
  /// The orderly end, the same call on every rank: returns when all have come, whatever their exit code; nothing may be
  /// called after it. Without it (after an error) the destructor leaves at once and waits for nobody.
  virtual void finish() = 0;
};

}  // namespace ct
