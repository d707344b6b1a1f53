#include "cli/csv_table.h"

#include <algorithm>

#include "base/error.h"
#include "base/paths.h"
#include "train/run/run_files.h"

namespace ct {

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

void require_replaceable_table(const Path& path, std::string_view header, std::string_view option) {
  const PathKind kind = kind_of(path);
  if (kind == PathKind::other) return;
  require_name_of_file(path, option);
  if (kind == PathKind::nothing) return;
  const MappedFile file(path);
  const bool is_own = file.text().starts_with(header);
  file.require_whole(ExitCode::io);
  if (!is_own)
    fail(ExitCode::usage, option, " ", in_quotes(path.native()),
         " is another table, or was not written by this program, which would replace it: give another file, or remove "
         "it "
         "first");
}

}  // namespace ct
