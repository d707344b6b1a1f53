#include "base/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace ct {

size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  const size_t length = byte < 0x80 ? 1 : (byte >> 5) == 6 ? 2 : (byte >> 4) == 14 ? 3 : (byte >> 3) == 30 ? 4 : 0;
  if (length == 0 || at + length > text.size()) return 0;
  uint32_t code = length == 1 ? byte : byte & (0x7f >> length);
  for (size_t k = 1; k < length; ++k) {
    const auto next = static_cast<unsigned char>(text[at + k]);
    if ((next >> 6) != 2) return 0;
    code = code << 6 | (next & 0x3f);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kSmallest[length] || code > 0x10ffff || surrogate ? 0 : length;
}

bool is_control(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  return byte < 0x20 || byte == 0x7f || (byte == 0xc2 && static_cast<unsigned char>(text[at + 1]) < 0xa0);
}

namespace {

/// U+061C, U+200E and U+200F, U+202A to U+202E, U+2066 to U+2069: they could show a text in another order than it has.
bool turns_direction(std::string_view character) {
  if (character == "\u061c" || character == "\u200e" || character == "\u200f") return true;
  return (character >= "\u202a" && character <= "\u202e") || (character >= "\u2066" && character <= "\u2069");
}

std::string without_controls(std::string_view text, std::string_view kept) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at), bytes = std::max<size_t>(length, 1);
    const std::string_view character = text.substr(at, bytes);
    const bool is_safe = length > 0 && !is_control(text, at) && !(length > 1 && turns_direction(character));
    if (is_safe || kept.find(text[at]) != kept.npos) {
      out += character;
    } else {
      for (const unsigned char byte : character) out += fmt::format("\\x{:02x}", byte);
    }
    at += bytes;
  }
  return out;
}

}  // namespace

std::string fault_of_name(std::string_view name) {
  for (size_t at = 0; at < name.size();) {
    const size_t length = utf8_length(name, at);
    if (length == 0) return "is not UTF-8 text";
    if (is_control(name, at)) return "contains a control character, such as a tab or a line break";
    at += length;
  }
  return "";
}

std::string printable(std::string_view text) { return without_controls(text, ""); }

std::string printable_lines(std::string_view text) { return without_controls(text, "\n\t"); }

size_t cut_character(std::string_view text) {
  for (size_t bytes = 1; bytes < 4 && bytes <= text.size(); ++bytes) {
    const auto byte = static_cast<unsigned char>(text[text.size() - bytes]);
    const size_t length = byte < 0xc0 ? 0 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    if (length > 0) return length > bytes ? bytes : 0;
    if (byte < 0x80) return 0;
  }
  return 0;
}

}  // namespace ct
