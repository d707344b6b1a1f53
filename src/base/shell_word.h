// Words of commands that are printed or written to scripts.
#pragma once

#include <string>

namespace ct {

/// Quotes a word for a shell: unchanged if it is plain, otherwise in single quotes.
std::string shell_word(const std::string& word);

}  // namespace ct
