// The interface of a device for the other floors: it prepares each operation once and launches it many times.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/plan_book.h"
#include "graph/graph.h"

namespace ct {

/// Memory, zeroed, aligned to 64 bytes or better; freed with the object.
class Memory {
 public:
  Memory() = default;
  Memory(std::byte* data, size_t bytes, std::function<void(std::byte*)> free)
      : data_(data, std::move(free)), bytes_(bytes) {}
  std::byte* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte, std::function<void(std::byte*)>> data_{nullptr, [](std::byte*) {}};
  size_t bytes_ = 0;
};

/// Returns the memory of an operand, after memory planning.
using Resolve = std::function<Tensor(ValueId)>;

/// The largest slot of a ring: larger values are better copied by copy().
inline constexpr size_t kMostRingBytes = 64 << 10;
/// A copy between a value in memory of allocate() and the next slot of a ring in memory of allocate_host() or
/// allocate().
struct RingCopy {
  enum class To { value, ring };
  std::byte* value;
  std::byte* ring;
  size_t bytes;  // of the value, and of each slot
  size_t slots;
  int32_t* turn;  // in memory of allocate(): the slot of the next copy, 0 at first
  To to;
};

/// One operation, prepared. bind() is called once, launch() many times, from one thread. Numbers that change between
/// launches are read from operands, so that a launch can be recorded.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual size_t workspace_bytes() const { return 0; }
  virtual void bind(const Resolve& operands, std::byte* workspace) = 0;
  virtual void launch() = 0;
  /// Does launch() run on the device only? Computation on the host cannot be recorded.
  virtual bool recordable() const { return true; }
  /// After bind(), at most once: launch() also makes these copies, of different rings, when its own results and all
  /// that was launched before are complete. False: it cannot, and nothing has changed.
  virtual bool take(const std::vector<RingCopy>& /*copies*/) { return false; }
};

/// One kernel for several operations that follow each other in a program.
struct MergedKernel {
  std::unique_ptr<Kernel> kernel;  // null: each operation needs a kernel of its own
  size_t operations = 1;           // how many it computes
  std::string name = {};           // "linear_grad"
};

/// A recorded sequence of launches, which the device repeats.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual void launch() = 0;
  /// Kernels, copies and fills in it.
  virtual size_t nodes() const = 0;
};

/// A point in the order of a backend's work, for which the host can wait.
class Event {
 public:
  virtual ~Event() = default;
  virtual void set() = 0;
  /// Waits until all work before the latest set() is done; returns at once if there was no set().
  virtual void wait() = 0;
};

/// Brings blocks of one size from memory of allocate_host() to one place in memory of allocate(), beside the device's
/// other work: by way of two blocks of its own.
class Uploads {
 public:
  virtual ~Uploads() = default;
  /// Work that follows finds the block at the place; work before it may still read what was there.
  virtual void bring(const std::byte* from) = 0;
  /// A point in the order of the calls of bring(): the host waits for it before it overwrites their blocks.
  virtual std::unique_ptr<Event> make_event() = 0;
};

/// A point in time in the order of a backend's work.
class Instant {
 public:
  virtual ~Instant() = default;
  virtual void set() = 0;
  /// Seconds of the device between `earlier`, of the same backend, and this instant; both must be set. Waits until the
  /// device has reached this instant.
  virtual double seconds_since(Instant& earlier) = 0;
};

/// A rank's device. Launches, copies and replays run in the order of their calls, asynchronously to the host. Before
/// the host reads their results or overwrites their operands, it must call wait() or wait for an Event. On a CPU each
/// call is synchronous.
class Backend {
 public:
  virtual ~Backend() = default;
  /// The device, for messages and checkpoints: "cpu, AVX3_ZEN4, oneDNN 2.6.3 with ISA 0xe7". Ranks must agree on it.
  virtual std::string description() const = 0;
  /// An identifier of this device that is unique in this and other processes; empty for the CPU.
  virtual std::string identity() const { return ""; }
  /// The reason why layers cannot compute in this type, or only too slowly; empty: they can.
  virtual std::string problem_with(DType compute) const = 0;
  /// Every thread that launches kernels or copies must call this once.
  virtual void enter_thread() {}

  /// Memory for kernels' operands. Throws ExitCode::memory with the size.
  virtual Memory allocate(size_t bytes) = 0;
  /// Bytes that allocate() can still provide, and the total; nullopt if allocate() uses host memory.
  struct Room {
    std::string device;  // for messages: "GPU 0 (NVIDIA H200)"
    int64_t available, total;
  };
  virtual std::optional<Room> room() const { return std::nullopt; }
  /// Is memory of allocate() ordinary host memory? Then no copies are needed.
  virtual bool is_host() const = 0;
  /// Host memory for copy().
  virtual Memory allocate_host(size_t bytes) = 0;
  /// Page-locks other host memory, so that copies are as fast as with memory of allocate_host(), for the lifetime of
  /// the result.
  virtual Memory pin(std::span<std::byte> memory) = 0;
  /// Copies between memory of allocate(), allocate_host() and pin(), in any direction.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  /// A function that makes these copies, of different rings, together, and can be recorded; empty if there are none.
  /// Several functions may serve one ring in turn.
  virtual std::function<void()> ring_copies(const std::vector<RingCopy>&) { return {}; }
  /// Null: copy() does as well.
  virtual std::unique_ptr<Uploads> make_uploads(std::byte* /*to*/, size_t /*bytes*/) { return nullptr; }
  /// Fills memory of allocate() with zeros.
  virtual void clear(void* at, size_t bytes) = 0;
  /// Waits until all work is done. Throws errors that occurred since the last call.
  virtual void wait() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual std::unique_ptr<Instant> make_instant() = 0;

  virtual std::unique_ptr<Kernel> prepare(const ComputeOp& op, const std::vector<Value>& values) = 0;
  /// The algorithms (plans) that operations use in libraries. If a stored plan is not available here, a new choice
  /// replaces it.
  PlanBook plans;
  /// Calls `body` once and records its launches instead of executing them; each must have been executed before. If
  /// recording fails (`body` may throw), nothing was executed, and the same launches may still succeed one by one. Null
  /// if the device does not benefit from recording.
  virtual std::unique_ptr<Replay> record(const std::function<void()>& body) = 0;
  /// One kernel for the first operations of `ops`, which follow each other directly, if the device gains from that; the
  /// same bits as by a kernel for each. All their operands must live as long as the kernel runs, because it reads and
  /// writes them in any order, apart from what one of the operations reads of another's results. A result that only
  /// another of them reads need not be written; `readers`: how many operations of the program read each value.
  virtual MergedKernel merge(std::span<const ComputeOp* const> /*ops*/, const std::vector<Value>&,
                             std::span<const int> /*readers*/) {
    return {};
  }
};

/// A rank's options for a CPU.
struct CpuOptions {
  bool winograd = true;            // use Winograd's algorithm for 3x3 convolutions where it is the fastest
  bool autotune = false;           // time the algorithms of each convolution instead of using the table
  std::string memory_advice = {};  // advice in out-of-memory errors: "use a smaller ..."
};
/// The CPU, which every machine has.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options = {});

}  // namespace ct
