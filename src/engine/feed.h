// Transfers of micro-batches to the device, and of losses back, while the host runs ahead.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/bind.h"
#include "engine/inputs.h"

namespace ct {

inline constexpr size_t kInputSlots = 4;     // micro-batches in flight that bring their images
inline constexpr size_t kRowsInFlight = 16;  // launches in flight of micro-batches whose images lie on the device
inline constexpr size_t kLogSlots = 256;     // values that are kept before the host must read them

/// The input of a bound program: its own memory if that is host memory, otherwise slots of page-locked memory that are
/// used in turn. Large inputs of training travel beside the device's other work. The device fetches a small input
/// itself: fetch() is a part of the program. Where the images lie on the
/// device, what remains is a small row. The rows of many micro-batches travel in one copy; the first one is fetched
/// behind it, and each of the others behind the micro-batch before it, together with what leaves the device then.
class InputFeed {
 public:
  /// Both must outlive it.
  InputFeed(Backend& backend, const BoundProgram& bound);
  /// Bytes that it uses on a GPU: page-locked host memory, and device memory.
  static int64_t host_bytes(const LoweredProgram& program);
  static int64_t device_bytes(const LoweredProgram& program);

  /// The number of micro-batches that can be written before the first of them is sent.
  int64_t at_once() const { return static_cast<int64_t>(rows_); }
  /// Those that were sent and whose program was not launched yet; without rows 0.
  int64_t left() const { return static_cast<int64_t>(left_); }
  /// The buffers for the next micro-batch, or for the one that comes `ahead` (less than at_once()) micro-batches after
  /// it; valid until send(). The first call after a send() drops what is left. Waits while the device still reads them.
  Inputs next(int64_t ahead = 0);
  /// What the program must launch before each micro-batch; empty: nothing.
  std::function<void()> fetch() const { return rows_ > 1 ? nullptr : fetch_; }
  /// The copies that the program must make after each micro-batch, and after all that reads its inputs.
  std::vector<RingCopy> fetch_next() const;
  /// Call it before and after the program's launch on written micro-batches. Without rows that is one.
  void send();
  void sent(int64_t micro_batches = 1);

 private:
  std::byte* place(size_t ahead);

  Backend& backend_;
  const BoundProgram& bound_;
  const Tensor block_;  // contains all inputs
  size_t bytes_;
  size_t rows_ = 1;                           // of a slot
  Memory slots_;                              // empty: the host writes the block itself
  Memory on_device_;                          // the number of the next slot or row, and the rows
  std::unique_ptr<Event> copied_;             // the slot with rows
  std::vector<std::unique_ptr<Event>> read_;  // of each slot, or each launch in flight, in turn
  std::unique_ptr<Uploads> uploads_;          // of large inputs of training
  std::optional<RingCopy> copy_;              // from a slot or row to the block
  std::function<void()> fetch_;               // that copy
  size_t turn_ = 0;
  bool sent_ = false;              // the slot with rows
  size_t written_ = 1, left_ = 0;  // rows
};

/// Keeps the values that the device writes repeatedly to one place, for the host to read later.
class OutputLog {
 public:
  /// `take` is called with the value of each keep(), in order, in settle() at the latest.
  using Take = std::function<void(const std::byte* value)>;
  OutputLog(Backend& backend, const Tensor& value, Take take);
  /// Bytes of page-locked host memory that it uses on a GPU.
  static int64_t host_bytes(const Value& value) { return static_cast<int64_t>(kLogSlots) * stored_bytes(value); }
  /// The copy that the program must make after the value is complete; none: keep() does it.
  std::vector<RingCopy> append() const;
  /// Slots are left for so many values; waits for the device if they are not.
  void reserve(int64_t values);
  /// Keeps the value after all launches so far; call it once for each run of the program that appends it, after its
  /// launch. Waits for the device if no slot is left.
  void keep();
  void settle();

 private:
  Backend& backend_;
  std::byte* value_;
  size_t bytes_;
  size_t first_ = 0, kept_ = 0;  // slots that were kept and not taken
  Take take_;
  Memory slots_;        // empty if the value is in host memory
  Memory device_turn_;  // empty if keep() copies
};

}  // namespace ct
