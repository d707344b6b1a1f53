// How a micro-batch gets to the device, and its losses back, while the host is ahead.
#pragma once

#include <functional>
#include <vector>

#include "engine/bind.h"
#include "engine/inputs.h"

namespace ct {

inline constexpr size_t kInputSlots = 4;  // micro-batches that may be on their way
inline constexpr size_t kLogSlots = 256;  // values that are kept before the host looks

/// The input side of a bound program: its own memory where that is the host's, else slots that take turns.
class InputFeed {
 public:
  /// Both must outlive it.
  InputFeed(Backend& backend, const BoundProgram& bound);
  /// What it takes of a GPU's host memory, page-locked.
  static int64_t host_bytes(const LoweredProgram& program) {
    return static_cast<int64_t>(kInputSlots) * stored_bytes(program[program.ports.inputs]);
  }
  /// Where to write the next micro-batch, until send(); waits while the device still reads the slot.
  Inputs next();
  /// What was written, for the launches that follow.
  void send();

 private:
  struct Slot {
    Memory memory;
    std::unique_ptr<Event> read;
  };

  Backend& backend_;
  const BoundProgram& bound_;
  const Tensor block_;       // of all inputs
  std::vector<Slot> slots_;  // none: the host writes the block itself
  size_t turn_ = 0;
};

/// A value that the device writes time after time, which the host looks at later.
class OutputLog {
 public:
  /// `take` is called with what each keep() kept, in order, by settle() at the latest.
  using Take = std::function<void(const std::byte* value)>;
  OutputLog(Backend& backend, const Tensor& value, Take take);
  /// What it takes of a GPU's host memory, page-locked.
  static int64_t host_bytes(const Value& value) { return static_cast<int64_t>(kLogSlots) * stored_bytes(value); }
  /// Keeps what the launches so far leave in the value.
  void keep();
  void settle();

 private:
  Backend& backend_;
  const std::byte* value_;
  size_t bytes_, kept_ = 0;
  Take take_;
  Memory slots_;  // none where the value is in the host's memory
};

}  // namespace ct
