// Bytes as text.
#pragma once

#include <span>
#include <string>

namespace ct {

/// Two lower-case hexadecimal digits for each byte.
inline std::string hex_text(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace ct
