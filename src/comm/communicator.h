// Communication between ranks. One process or thread is one rank; training has no other form of parallelism.
//
// Two planes. *Prepared collectives* move training's large buffers: addresses are exchanged once, launch() is called
// every step. *Control calls* (gather, broadcast, barrier) move a few bytes and block. Every rank makes the same calls
// in the same order.
//
// Sums over ranks are reproducible: leaves are added in one canonical tree (comm/reduction/tree_sum.h) for any number
// of ranks. No wait hangs in a failed job: it ends with Error(ExitCode::peer), which names the lost rank, or, if a rank
// has called abort(), with an Error of that call's code, so all ranks exit with the same code.
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

/// A collective with fixed buffers. launch() runs it on the calling thread and returns when this rank's result is
/// complete and its input may be overwritten. All ranks prepare it together, and launch collectives in the same order,
/// one at a time. A concurrent control call is allowed only if overlaps(). Preparation and launches may be on different
/// threads.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual void launch() = 0;
};

/// A sum over ranks and the micro-steps of a step: push() for every micro-step but the last, finish() for the last.
class Reduction {
 public:
  virtual ~Reduction() = default;
  /// Pushes this rank's ranges of every rank's `whole`, in rank order, into this rank's trees.
  virtual void push() = 0;
  /// Pushes the last leaves and writes the finished sums to `shard`.
  virtual void finish() = 0;
  /// Bytes of the partial sums that are kept between calls and allocated on first use; 0 if only finish() is called.
  virtual size_t bytes() const = 0;
};

/// A run of elements that one rank owns: its byte offset in `whole`, which is the same on all ranks, and in the owner's
/// `shard`.
struct ShardRange {
  int64_t whole = 0, shard = 0;
  int64_t elements = 0;
  int element_bytes = 4;
  int64_t bytes() const { return elements * element_bytes; }
};
using Ownership = std::vector<std::vector<ShardRange>>;  // by rank; no byte of `whole` twice

/// The traffic of prepared collectives between ranks, counted by the rank that receives or reads the data, or writes it
/// into another rank's memory. For n elements and N ranks, all_reduce moves 2 n (N-1)/N per rank on average, the others
/// n (N-1)/N.
struct Traffic {
  int64_t elements = 0, bytes = 0;
  Traffic operator+(const Traffic& more) const { return {elements + more.elements, bytes + more.bytes}; }
  Traffic operator-(const Traffic& earlier) const { return {elements - earlier.elements, bytes - earlier.bytes}; }
};
enum class TrafficKind : uint8_t { training, norms };

/// The order of sums over ranks: the canonical tree, or any order of the transport, with at most one partial sum.
enum class SumOrder : uint8_t { canonical, any };

/// For sums in any order: the elements that messages contain in a 16-bit type, as ascending ranges [begin, end).
struct Narrowing {
  DType type = DType::bf16;
  std::vector<std::pair<int64_t, int64_t>> elements;
};

class Communicator : public Bootstrap {
 public:
  /// The transport, for messages: "solo", "4 threads of one process", "2 processes on host a (shared memory)".
  virtual std::string description() const = 0;

  /// Zeroed memory, aligned to 64 bytes, for buffers of prepared collectives; other ranks can read it if the transport
  /// supports this. Collective: same order and size on every rank. Owned by the communicator. Throws ExitCode::memory,
  /// which names the store (/dev/shm, TMPDIR) that is too small.
  virtual std::byte* allocate(size_t bytes) = 0;

  /// Replaces `data` by its tree sum over ranks; rank r is leaf r. `data` is from allocate() and equally long on all
  /// ranks. The default implementation reduce-scatters, then gathers the slices.
  virtual std::unique_ptr<Collective> all_reduce(std::span<float> data, SumOrder order = SumOrder::canonical);
  /// Sums f32 leaves, which ranks write into `whole`: at most `leaves` per step from all ranks together. `whole` is
  /// from allocate() and equally long on all ranks. This rank's sums are written to its ranges of `shard`, which is
  /// either memory outside `whole`, or `whole` itself; then every range has the same offset in both.
  virtual std::unique_ptr<Reduction> reduce_scatter(std::span<float> whole, float* shard, Ownership ranges,
                                                    int64_t leaves, SumOrder order = SumOrder::canonical) = 0;
  /// Are ranks on different hosts, so that sums in 16 bits save enough time?
  virtual bool narrows() const { return false; }
  /// Only if narrows(): the two sums above in SumOrder::any, with the elements of `data` or `whole` that `narrowing`
  /// lists sent in 16 bits. Each rank's part is rounded once and added in f32; an all_reduce rounds the sum again.
  virtual std::unique_ptr<Collective> narrow_all_reduce(std::span<float> data, const Narrowing& narrowing);
  virtual std::unique_ptr<Reduction> narrow_reduce_scatter(std::span<float> whole, float* shard, Ownership ranges,
                                                           int64_t leaves, const Narrowing& narrowing);
  /// Fills `whole` on every rank, its own ranges included, from the shards of all owners. `shard` is from allocate()
  /// and equally long on all ranks; `whole` is any memory, or the shard itself; then every range has the same offset in
  /// both.
  virtual std::unique_ptr<Collective> all_gather(std::span<std::byte> whole, std::span<std::byte> shard,
                                                 Ownership ranges, TrafficKind kind = TrafficKind::training) = 0;
  /// Traffic so far. May be called while another thread launches.
  virtual Traffic traffic(TrafficKind kind) const = 0;
  /// Counts the traffic of a recording that is replayed without launch() (see recordable()).
  virtual void count(TrafficKind, const Traffic&) {}
  /// Does a collective leave the core free during transfers? Then another thread should run it in parallel with
  /// computation, and control calls may run concurrently.
  virtual bool overlaps() const = 0;
  /// Do collectives only enqueue work in a device's stream? Then they may be recorded with kernels (Backend::record).
  virtual bool recordable() const { return false; }
  /// Bytes of this rank's memory from allocate() and of the transport's own buffers.
  virtual size_t allocated_bytes() const = 0;

  /// Control plane. all.size() == size() * mine.size().
  virtual void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  std::vector<std::string> gather(std::string_view mine) final;
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  virtual void barrier() = 0;
  /// This rank's signs of life, which its watchdog sends to the other ranks.
  virtual Heartbeat& heartbeat() = 0;
  /// The board of ranks that share memory (comm/host/shared_board.h); null: they do not.
  virtual std::shared_ptr<SharedBoard> board() { return nullptr; }
  /// Marks the whole job as failed, so that other ranks leave their waits. Returns true on the first rank that calls
  /// it: its error is printed, and all ranks exit with its code. Returns false on ranks that failed because another had
  /// failed.
  virtual bool abort(int exit_code) noexcept = 0;
  /// Has any rank called abort()? Cheap; false if this rank cannot know it yet.
  virtual bool aborted() const noexcept = 0;
  /// The regular end, called by every rank: returns when all ranks have called it, with any exit code. No other call
  /// may follow. Without it (after an error) the destructor returns at once and does not wait for other ranks.
  virtual void finish() = 0;
};

}  // namespace ct
