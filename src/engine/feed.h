// Transfers of micro-batches to the device, and of losses back, while the host runs ahead.
#pragma once

#include <functional>
#include <vector>

#include "engine/bind.h"
#include "engine/inputs.h"

namespace ct {

inline constexpr size_t kInputSlots = 4;  // micro-batches in flight
inline constexpr size_t kLogSlots = 256;  // values that are kept before the host must read them

/// The input of a bound program: its own memory if that is host memory, otherwise slots that are used in turn. The
/// device fetches a small input itself: fetch() is a part of the program.
class InputFeed {
 public:
  /// Both must outlive it.
  InputFeed(Backend& backend, const BoundProgram& bound);
  /// Bytes of page-locked host memory that it uses on a GPU.
  static int64_t host_bytes(const LoweredProgram& program) {
    return static_cast<int64_t>(kInputSlots) * stored_bytes(program[program.ports.inputs]);
  }
  /// The buffers for the next micro-batch, valid until send(). Waits while the device still reads the slot.
  Inputs next();
  /// What the program must launch before each micro-batch; empty: nothing.
  const std::function<void()>& fetch() const { return fetch_; }
  /// Call it before and after the program's launch on the written micro-batch.
  void send();
  void sent();

 private:
  Backend& backend_;
  const BoundProgram& bound_;
  const Tensor block_;  // contains all inputs
  size_t bytes_;
  Memory slots_;                              // empty: the host writes the block itself
  std::vector<std::unique_ptr<Event>> read_;  // of each slot
  std::function<void()> fetch_;
  size_t turn_ = 0;
};

/// Keeps the values that the device writes repeatedly to one place, for the host to read later.
class OutputLog {
 public:
  /// `take` is called with the value of each keep(), in order, in settle() at the latest.
  using Take = std::function<void(const std::byte* value)>;
  OutputLog(Backend& backend, const Tensor& value, Take take);
  /// Bytes of page-locked host memory that it uses on a GPU.
  static int64_t host_bytes(const Value& value) { return static_cast<int64_t>(kLogSlots) * stored_bytes(value); }
  /// What the program must launch after the value is complete; empty: nothing.
  const std::function<void()>& append() const { return append_; }
  /// Keeps the value after all launches so far; call it after each launch of the program.
  void keep();
  void settle();

 private:
  Backend& backend_;
  std::byte* value_;
  size_t bytes_;
  size_t first_ = 0, kept_ = 0;  // slots that were kept and not taken
  Take take_;
  Memory slots_;  // empty if the value is in host memory
  std::function<void()> append_;
};

}  // namespace ct
