#include "comm/reduction/narrow.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "device/cpu/kernels/plain.h"

namespace ct {

NarrowMessage::NarrowMessage(const std::vector<ShardRange>& ranges, const Narrowing& narrowing)
    : type_(narrowing.type) {
  check(type_ == DType::bf16 || type_ == DType::f16, "a message in ", name_of(type_));
  int64_t packed = 0;
  const auto add = [&](int64_t begin, int64_t end, bool narrow) {
    if (begin >= end) return;
    parts_.push_back({begin, packed, bytes_, end - begin, narrow});
    packed += end - begin;
    bytes_ += (end - begin) * (narrow ? 2 : 4);
  };
  for (const ShardRange& range : ranges) {
    int64_t at = range.whole / 4;
    const int64_t end = at + range.elements;
    const auto& narrow = narrowing.elements;
    auto next = std::ranges::partition_point(narrow, [&](const auto& n) { return n.second <= at; });
    for (; next != narrow.end() && next->first < end; ++next) {
      const int64_t begin = std::max(at, next->first);
      add(at, begin, false);
      at = std::min(end, next->second);
      add(begin, at, true);
    }
    add(at, end, false);
  }
}

void NarrowMessage::pack(const float* whole, std::byte* message) const {
  for (const Part& part : parts_) {
    const float* from = whole + part.whole;
    std::byte* to = message + part.byte;
    if (!part.narrow)
      std::memcpy(to, from, static_cast<size_t>(part.elements) * sizeof *from);
    else if (type_ == DType::bf16)
      cpu::convert(from, reinterpret_cast<uint16_t*>(to), part.elements);
    else
      cpu::convert_to_f16(from, reinterpret_cast<uint16_t*>(to), part.elements);
  }
}

void NarrowMessage::read(const Part& part, const std::byte* message, float* to) const {
  const std::byte* from = message + part.byte;
  const auto* halves = reinterpret_cast<const uint16_t*>(from);
  if (!part.narrow)
    std::memcpy(to, from, static_cast<size_t>(part.elements) * sizeof *to);
  else if (type_ == DType::bf16)
    cpu::convert(halves, to, part.elements);
  else
    std::transform(halves, halves + part.elements, to, from_f16);
}

void NarrowMessage::place(const std::byte* message, float* whole) const {
  for (const Part& part : parts_) read(part, message, whole + part.whole);
}

void NarrowMessage::unpack(const std::byte* message, float* packed) const {
  for (const Part& part : parts_) read(part, message, packed + part.packed);
}

}  // namespace ct
