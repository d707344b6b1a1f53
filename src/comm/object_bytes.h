// An object as bytes to send, and as room for bytes that arrive; of types that are copied as bytes (trivially
// copyable).
#pragma once
#include <cstddef>
#include <span>

namespace ct {

template <class T>
std::span<std::byte> room_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}
template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace ct
