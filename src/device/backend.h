// What the rest of the program knows of a device: it prepares each operation once and launches it many times.
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

/// Where each operand lies, once the memory planner has spoken.
using Resolve = std::function<Tensor(ValueId)>;

/// One operation, prepared. bind() is called once, launch() many times, from one thread. Numbers that change between
/// launches are read from operands, so that a launch can be recorded.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual size_t workspace_bytes() const { return 0; }
  virtual void bind(const Resolve& operands, std::byte* workspace) = 0;
  virtual void launch() = 0;
  /// Does launch() leave everything to the device? What the host computes cannot be recorded.
  virtual bool recordable() const { return true; }
};

/// Launches that the device repeats by itself.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual void launch() = 0;
};

/// A point in the order of a backend's work.
class Event {
 public:
  virtual ~Event() = default;
  virtual void set() = 0;
  /// Waits until everything before the latest set() is done; not at all, if there was none.
  virtual void wait() = 0;
};

/// A moment in the order of a backend's work.
class Instant {
 public:
  virtual ~Instant() = default;
  virtual void set() = 0;
  /// Seconds that the device took from `earlier`, of the same backend, to here; both are set. Waits until it is there.
  virtual double seconds_since(Instant& earlier) = 0;
};

/// A device as one rank sees it. Launches, copies and replays run in the order of their calls, but beside the host:
/// before it reads what they write, or overwrites what they read, the host calls wait(), or waits for a mark. The CPU
/// is done with each when the call returns.
class Backend {
 public:
  virtual ~Backend() = default;
  /// The device for people and checkpoints: "cpu, AVX3_ZEN4, oneDNN 2.6.3 with ISA 0xe7". Ranks must agree on it.
  virtual std::string description() const = 0;
  /// Tells this device from every other, in this and other processes; the CPU has none.
  virtual std::string identity() const { return ""; }
  /// Why layers cannot compute in this type at a speed worth having; empty: they can.
  virtual std::string problem_with(DType compute) const = 0;
  /// Called once by every thread that launches kernels or copies.
  virtual void enter_thread() {}

  /// Memory that kernels work on. Throws ExitCode::memory naming the size.
  virtual Memory allocate(size_t bytes) = 0;
  /// Bytes that allocate() may still give, of all there are; nothing where that is the host's business.
  struct Room {
    std::string device;  // for people: "GPU 0 (NVIDIA H200)"
    int64_t available, total;
  };
  virtual std::optional<Room> room() const { return std::nullopt; }
  /// Does the host read and write what allocate() gives, as it does any memory? Then there is nothing to copy.
  virtual bool is_host() const = 0;
  /// Memory of the host for the other side of copy().
  virtual Memory allocate_host(size_t bytes) = 0;
  /// Has memory of the host that came from elsewhere copied as fast as if it came from allocate_host(); until the
  /// result goes.
  virtual Memory pin(std::span<std::byte> memory) = 0;
  /// Copies between memory of allocate(), allocate_host() and pin(), in any direction.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  /// Makes memory of allocate() zero again.
  virtual void clear(void* at, size_t bytes) = 0;
  /// Waits until everything is done. Throws what went wrong since the last call.
  virtual void wait() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual std::unique_ptr<Instant> make_instant() = 0;

  virtual std::unique_ptr<Kernel> prepare(const ComputeOp& op, const std::vector<Value>& values) = 0;
  /// Which of the libraries' ways operations take. One that is not there is chosen again.
  PlanBook plans;
  /// What `body` launches, which has been launched before, to be launched again; body runs once, and nothing of it
  /// takes effect, also where it throws: then the same launches may still succeed one by one. Null where recording
  /// gains nothing.
  virtual std::unique_ptr<Replay> record(const std::function<void()>& body) = 0;
};

/// What a rank asks of a CPU.
struct CpuOptions {
  bool winograd = true;            // use Winograd's algorithm for 3x3 convolutions where it is the fastest
  bool autotune = false;           // time the ways of each convolution instead of taking the built-in table's
  std::string memory_advice = {};  // what errors advise where memory runs out: "use a smaller ..."
};
/// What every machine offers.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options = {});

}  // namespace ct
