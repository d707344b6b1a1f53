// How a micro-batch gets to the device, and its losses back, while the host is ahead.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/bind.h"
#include "graph/dropout_key.h"
#include "graph/edit_draw.h"

namespace ct {

inline constexpr size_t kInputSlots = 4;  // micro-batches that may be on their way
inline constexpr size_t kLogSlots = 256;  // values that are kept before the host looks

/// Where the host writes a micro-batch: images u8 [N][C][H][W], draws i32 [N][4], labels i32 [N], and which micro-batch
/// it is, which evaluation does not ask; edits, where images are edited, and second labels with their shares, where
/// labels are mixed (Ports); else null.
struct Inputs {
  uint8_t* images;
  int32_t* draws;
  int32_t* labels;
  DropoutKey* dropout_key;
  EditDraw* edits;
  int32_t* second_labels;
  float* second_shares;
};

/// The input side of a bound program: its own memory where that is the host's, else slots that take turns.
class InputFeed {
 public:
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
  std::byte* block_;
  size_t bytes_;
  size_t draws_, labels_, dropout_key_;                          // where they begin
  std::optional<size_t> edits_, second_labels_, second_shares_;  // absent: there are none
  std::vector<Slot> slots_;                                      // none: the host writes the block itself
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
