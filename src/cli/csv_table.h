// Tables that verbs write for spreadsheets: comma-separated, a header first.
#pragma once

#include <string>
#include <string_view>

#include "base/files.h"

namespace ct {

/// A field of a row, in quotes if it contains a separator.
std::string csv_field(std::string_view text);

/// Throws Error(usage) unless a table whose first line begins with `header` may be written to `path`: its folder
/// exists, and `path` does not, or is such a table, a device or a pipe. `option` is for the message.
void require_replaceable_table(const Path& path, std::string_view header, std::string_view option);

}  // namespace ct
