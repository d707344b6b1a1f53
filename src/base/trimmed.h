// Text without the blanks around it.
#pragma once

#include <string_view>

namespace ct {

/// `text` without the `blanks` that it begins and ends with. Carriage returns are among them: lines of files from
/// Windows end with one.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r") {
  const size_t first = text.find_first_not_of(blanks);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace ct
