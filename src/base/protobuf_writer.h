// The wire format of protocol buffers (protobuf.dev/programming-guides/encoding): a message is a series of fields, each
// a key (number << 3 | wire type) and a value. Writing only, without any .proto file: callers know their fields'
// numbers.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace ct {

/// A message in the making: fields by their numbers, in the order of the calls.
class ProtobufMessage {
 public:
  /// Of int32, int64, uint64, bool and enums; a negative number takes ten bytes, as in the specification.
  template <std::integral T>
  ProtobufMessage& number(uint64_t field, T value) {
    return varint(field << 3 | kVarint).varint(static_cast<uint64_t>(value));
  }
  ProtobufMessage& fixed(uint64_t field, double value) { return varint(field << 3 | kFixed64).add_bits(value); }
  ProtobufMessage& fixed(uint64_t field, float value) { return varint(field << 3 | kFixed32).add_bits(value); }
  /// Of strings and bytes.
  ProtobufMessage& bytes(uint64_t field, std::string_view value) {
    announce(field, value.size());
    text_ += value;
    return *this;
  }
  ProtobufMessage& message(uint64_t field, const ProtobufMessage& value) { return bytes(field, value.text_); }
  /// The key and the length of a string, bytes or message whose `size` bytes the caller writes elsewhere, behind the
  /// text so far.
  ProtobufMessage& announce(uint64_t field, uint64_t size) {
    return varint(field << 3 | kLengthDelimited).varint(size);
  }

  /// All fields of another message behind the own ones.
  ProtobufMessage& append(const ProtobufMessage& other) {
    text_ += other.text_;
    return *this;
  }

  const std::string& text() const { return text_; }

 private:
  enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

  /// Seven bits a byte, the lowest first; the eighth bit: more follow.
  ProtobufMessage& varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
    return *this;
  }
  template <class T>
  ProtobufMessage& add_bits(T value) {
    static_assert(std::endian::native == std::endian::little);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }

  std::string text_;
};

}  // namespace ct
