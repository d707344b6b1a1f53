// UTF-8, as far as it matters for what may be printed or stored as text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ct {

/// Bytes of the character that begins at text[at], 1 to 4; 0 where no valid one does.
size_t utf8_length(std::string_view text, size_t at);

/// Is the character at text[at] one that terminals obey: below U+0020, U+007F to U+009F? `at` begins a valid one.
bool is_control(std::string_view text, size_t at);

/// Someone else's text, fit for a terminal: control characters (line breaks among them) and what is not UTF-8 become
/// \x0a and the like.
std::string printable(std::string_view text);

}  // namespace ct
