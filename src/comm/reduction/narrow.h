// Messages of sums in which gradients are rounded to 16 bits, for cables that are slower than rounding.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/communicator.h"

namespace ct {

/// Ranges of f32 laid end to end in a message, in the order given.
class NarrowMessage {
 public:
  NarrowMessage(const std::vector<ShardRange>& ranges, const Narrowing& narrowing);
  size_t bytes() const { return static_cast<size_t>(bytes_); }
  /// Takes them from their places in `whole`.
  void pack(const float* whole, std::byte* message) const;
  /// Puts them to their places in `whole`.
  void place(const std::byte* message, float* whole) const;
  /// Lays them end to end as f32.
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
