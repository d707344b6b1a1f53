// Messages of sums with gradients rounded to 16 bits, for networks that are slower than the rounding.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/communicator.h"

namespace ct {

/// Ranges of f32, concatenated in a message in the given order.
class NarrowMessage {
 public:
  NarrowMessage(const std::vector<ShardRange>& ranges, const Narrowing& narrowing);
  size_t bytes() const { return static_cast<size_t>(bytes_); }
  /// Copies the ranges from `whole` to the message.
  void pack(const float* whole, std::byte* message) const;
  /// Copies the ranges from the message to `whole`.
  void place(const std::byte* message, float* whole) const;
  /// Concatenates the ranges as f32.
  void unpack(const std::byte* message, float* packed) const;

 private:
  struct Part {
    int64_t whole, packed, byte;  // elements, elements, bytes
    int64_t elements;
    bool narrow;
  };
  void read(const Part& part, const std::byte* message, float* to) const;

  DType type_;
  std::vector<Part> parts_;
  int64_t bytes_ = 0;
};

}  // namespace ct
