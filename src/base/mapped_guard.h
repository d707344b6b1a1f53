// Mapped files that are cut while they are read. Behind the new end, or where the disk fails, a read of the mapping
// raises SIGBUS, which would end the process without a word. A guarded region reads as zeros from there on instead,
// and says so: whoever used its bytes asks was_cut() before their results count. Any other SIGBUS goes to the
// handler that was there before; whoever survives one is without the guard until the next file is mapped.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

namespace ct {

class GuardedRegion {
 public:
  /// `bytes` are a whole mapping, private and for reading, that outlives the guard.
  explicit GuardedRegion(std::span<const std::byte> bytes);
  ~GuardedRegion();
  GuardedRegion(const GuardedRegion&) = delete;
  GuardedRegion& operator=(const GuardedRegion&) = delete;

  /// Were zeros read in place of bytes that are gone? True at the latest when the read returns.
  bool was_cut() const { return cut_.load(std::memory_order_relaxed); }

  /// The rest of the region that holds the address becomes zeros; false if none does. For the signal's handler.
  static bool zero_from(const void* address);

 private:
  const std::span<const std::byte> bytes_;
  std::atomic<bool> cut_{false};
  GuardedRegion *next_ = nullptr, *previous_ = nullptr;
};

}  // namespace ct
