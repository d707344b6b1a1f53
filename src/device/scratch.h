// Scratch memory of uses that take turns, as those of one stream do.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "device/backend.h"

namespace ct {

/// One buffer, replaced by a larger one where it is too small. Those before it are kept, for launches that use them may
/// have been recorded.
class Scratch {
 public:
  explicit Scratch(std::function<Memory(size_t bytes)> allocate) : allocate_(std::move(allocate)) {}
  std::byte* of(size_t bytes) {
    if (buffers_.empty() || buffers_.back().bytes() < bytes) buffers_.push_back(allocate_(bytes));
    return buffers_.back().data();
  }
  size_t bytes() const {
    size_t sum = 0;
    for (const Memory& memory : buffers_) sum += memory.bytes();
    return sum;
  }

 private:
  std::function<Memory(size_t)> allocate_;
  std::vector<Memory> buffers_;
};

/// What a Scratch takes, foretold from the same calls.
struct ScratchBytes {
  int64_t largest = 0, sum = 0;
  void of(int64_t bytes) {
    if (bytes > largest) sum += largest = bytes;
  }
};

}  // namespace ct
