// Ranks and what they exchange. One process or thread is one rank; there is no other way to be parallel.
//
// Two planes. *Prepared collectives* move training's large buffers: addresses are exchanged once, launch() is called
// every step. *Control calls* (gather, broadcast, barrier) move a few bytes and block. Every rank makes the same calls
// in the same order.
//
// Sums over ranks are reproducible: leaves are added in one canonical tree (comm/reduction/tree_sum.h), whatever the
// number of ranks. No wait hangs on a job that has failed: it ends with Error(ExitCode::peer) naming a rank that was
// lost, or, when a rank has called abort(), with an Error of the code given there (so that all ranks end with one
// code).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/bootstrap.h"
#include "comm/watchdog/heartbeat.h"
#include "tensor/tensor.h"

namespace ct {

struct SharedBoard;

/// A collective whose buffers are known: launch() runs it on the calling thread and returns when this rank's result is
/// complete and its input may be overwritten. Prepared by all ranks together; launched in the same order everywhere,
/// one at a time, beside a control call only where overlaps(); the launching thread may be another than the preparing
/// one.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual void launch() = 0;
};

/// A sum over ranks and over the micro-steps of a step: push() for every micro-step but the last, finish() for that.
class Reduction {
 public:
  virtual ~Reduction() = default;
  /// Pushes what this rank owns of every rank's `whole`, in rank order, into this rank's trees.
  virtual void push() = 0;
  /// Pushes as push() does, but the last leaves; the finished sums go to `shard`.
  virtual void finish() = 0;
  /// Memory of the partial sums that are kept between calls, made at the first need: none if finish() is all there is.
  virtual size_t bytes() const = 0;
};

/// A run of elements that one rank owns: where it lies in the `whole` that all ranks have alike, and where in the
/// owner's `shard`, in bytes.
struct ShardRange {
  int64_t whole = 0, shard = 0;
  int64_t elements = 0;
  int element_bytes = 4;
  int64_t bytes() const { return elements * element_bytes; }
};
using Ownership = std::vector<std::vector<ShardRange>>;  // by rank; no byte of `whole` twice

/// What prepared collectives have moved between ranks, counted by the rank that receives or reads it, or writes it into
/// a peer's memory. Of n elements and N ranks, all_reduce moves 2 n (N-1)/N a rank in the mean, the others n (N-1)/N.
struct Traffic {
  int64_t elements = 0, bytes = 0;
  Traffic operator+(const Traffic& more) const { return {elements + more.elements, bytes + more.bytes}; }
  Traffic operator-(const Traffic& earlier) const { return {elements - earlier.elements, bytes - earlier.bytes}; }
};
enum class TrafficKind : uint8_t { training, norms };

/// How sums over ranks are added: by the canonical tree, or as suits the transport, with one partial sum at the most.
enum class SumOrder : uint8_t { canonical, any };

/// Which elements of a sum in any order, [begin, end) in ascending order, are rounded to a type of 16 bits on their
/// way.
struct Narrowing {
  DType type = DType::bf16;
  std::vector<std::pair<int64_t, int64_t>> elements;
};

class Communicator : public Bootstrap {
 public:
  /// The transport, for people: "solo", "4 threads of one process", "2 processes on host a (shared memory)".
  virtual std::string description() const = 0;

  /// Zeroed, 64-byte-aligned memory for buffers of prepared collectives, readable by peers where the transport can.
  /// Collective: same order and size on every rank. Owned by the communicator. Throws ExitCode::memory naming the
  /// store (/dev/shm, TMPDIR) that is too small.
  virtual std::byte* allocate(size_t bytes) = 0;

  /// data (from allocate(), same length everywhere) becomes the tree sum over ranks, rank r being leaf r. As it is
  /// here: each rank sums a slice, and all gather the slices.
  virtual std::unique_ptr<Collective> all_reduce(std::span<float> data, SumOrder order = SumOrder::canonical);
  /// `whole` (from allocate(), same length everywhere) holds f32 leaves, at most `leaves` of them a step from all ranks
  /// together; this rank's sums go to its ranges of `shard`: any memory beside `whole`, or `whole` itself with every
  /// range at its place.
  virtual std::unique_ptr<Reduction> reduce_scatter(std::span<float> whole, float* shard, Ownership ranges,
                                                    int64_t leaves, SumOrder order = SumOrder::canonical) = 0;
  /// Is there a cable between ranks, so that sums in 16 bits are worth their rounding?
  virtual bool narrows() const { return false; }
  /// As those above in any order, where it does; `narrowing` counts elements of `data` or `whole`. Each rank's part is
  /// rounded once and added in f32; of an all_reduce the sum is rounded again.
  virtual std::unique_ptr<Collective> narrow_all_reduce(std::span<float> data, const Narrowing& narrowing);
  virtual std::unique_ptr<Reduction> narrow_reduce_scatter(std::span<float> whole, float* shard, Ownership ranges,
                                                           int64_t leaves, const Narrowing& narrowing);
  /// Completes `whole` (any memory) on every rank, own ranges included, from the owners' shards (from allocate(), same
  /// length everywhere); whole may be the shard itself, with every range at its place.
  virtual std::unique_ptr<Collective> all_gather(std::span<std::byte> whole, std::span<std::byte> shard,
                                                 Ownership ranges, TrafficKind kind = TrafficKind::training) = 0;
  /// Traffic so far. May be asked while another thread launches.
  virtual Traffic traffic(TrafficKind kind) const = 0;
  /// Counts what a recording moves when it is replayed without a launch() (see recordable()).
  virtual void count(TrafficKind, const Traffic&) {}
  /// Does a collective leave the core free while bytes travel? Then it pays to run it beside computation, on another
  /// thread, and the control plane's calls may come meanwhile.
  virtual bool overlaps() const = 0;
  /// Do collectives only enter a device's stream, and return? Then they may be recorded with kernels (Backend::record).
  virtual bool recordable() const { return false; }
  /// This rank's part of what allocate() gave, and the buffers that the transport keeps for itself.
  virtual size_t allocated_bytes() const = 0;

  /// Control plane. all.size() == size() * mine.size().
  virtual void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  std::vector<std::string> gather(std::string_view mine) final;
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  virtual void barrier() = 0;
  /// What this rank tells its watchdog, and through it its peers.
  virtual Heartbeat& heartbeat() = 0;
  /// What ranks that share memory write for each other (comm/host/shared_board.h); null: they share none.
  virtual std::shared_ptr<SharedBoard> board() { return nullptr; }
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
