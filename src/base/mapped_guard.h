// Protection against mapped files that are truncated while they are read. After the new end, or if the disk fails, a
// read of the mapping raises SIGBUS, which would end the process without a message. In a guarded region such reads
// return zeros instead, and was_cut() becomes true; it must be checked before results are used. Any other SIGBUS goes
// to the previous handler; if the process survives it, the guard is off until the next file is mapped.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

namespace ct {

class GuardedRegion {
 public:
  /// `bytes` must be a whole private mapping for reading that outlives the guard.
  explicit GuardedRegion(std::span<const std::byte> bytes);
  ~GuardedRegion();
  GuardedRegion(const GuardedRegion&) = delete;
  GuardedRegion& operator=(const GuardedRegion&) = delete;

  /// Have reads returned zeros instead of missing bytes? True at the latest when the read returns.
  bool was_cut() const { return cut_.load(std::memory_order_relaxed); }

  /// Replaces the rest of the region that contains the address by zeros; false: no region does. For the signal handler.
  static bool zero_from(const void* address);

 private:
  const std::span<const std::byte> bytes_;
  std::atomic<bool> cut_{false};
  GuardedRegion *next_ = nullptr, *previous_ = nullptr;
};

}  // namespace ct
