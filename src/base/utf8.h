// UTF-8 checks for text that is printed or stored.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ct {

/// Bytes of the character that begins at text[at], 1 to 4; 0: not a valid one.
size_t utf8_length(std::string_view text, size_t at);

/// Is the character at text[at] a control character: below U+0020, or U+007F to U+009F? A valid character must begin at
/// `at`.
bool is_control(std::string_view text, size_t at);

/// Why this cannot be a name, which is printed and stored; empty: it can.
std::string fault_of_name(std::string_view name);

/// External text, safe for a terminal: control characters, including line breaks, characters that change the direction
/// of writing, and invalid UTF-8 become escapes such as \x0a.
std::string printable(std::string_view text);

/// The same, but line breaks and tabs stay.
std::string printable_lines(std::string_view text);

/// The bytes at the end of `text` that begin a character whose other bytes are missing.
size_t cut_character(std::string_view text);

}  // namespace ct
