// Scratch memory for users that run one after another, such as those of one stream.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "device/backend.h"

namespace ct {

/// One buffer, which is replaced by a larger one if it is too small. Earlier buffers are kept, because recorded
/// launches may use them.
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

/// The memory of a Scratch, predicted from the same calls.
struct ScratchBytes {
  int64_t largest = 0, sum = 0;
  void of(int64_t bytes) {
    if (bytes > largest) sum += largest = bytes;
  }
};

}  // namespace ct
