#include "data/folder_names.h"

#include <algorithm>
#include <system_error>

#include "base/files.h"
#include "base/paths.h"
#include "base/text.h"

namespace ct {
namespace fs = std::filesystem;

std::vector<std::string> visible_names(const fs::path& folder, size_t most) {
  std::vector<std::string> names;
  std::error_code error;
  const fs::directory_iterator end;
  for (fs::directory_iterator in(folder, error); !error && in != end && names.size() < most; in.increment(error))
    if (std::string name = in->path().filename().native(); !is_hidden_name(name)) names.push_back(std::move(name));
  if (error) fail_io("list", folder, error.value(), ExitCode::data);
  std::ranges::sort(names);
  return names;
}

std::string lack_of(std::string_view sought, const fs::path& folder) {
  if (kind_of(folder, ExitCode::data) != PathKind::folder) return "no such folder";
  const std::vector<std::string> names = visible_names(folder, 2);
  if (names.empty()) return "is empty";
  return str("holds no ", sought, names.size() == 1 ? ", only " + in_quotes(names.front()) : "");
}

bool is_vacant(const fs::path& folder, std::string_view set) {
  const PathKind there = kind_of(folder, ExitCode::data);
  if (there != PathKind::folder) return there == PathKind::nothing;
  constexpr size_t kEnough = 10;  // names to find one that counts
  return std::ranges::all_of(visible_names(folder, kEnough), [&](const std::string& name) {
    return name == set || name == "lost+found" || lower_case(name).starts_with("readme");
  });
}

}  // namespace ct
