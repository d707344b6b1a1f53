#include "train/config/find.h"

#include "base/error.h"
#include "base/paths.h"

namespace ct {

std::filesystem::path find_config(const std::string& name, const std::vector<std::filesystem::path>& directories) {
  std::vector<std::filesystem::path> candidates = {name};
  if (!name.empty() && candidates[0].is_relative())
    for (const auto& directory : directories) candidates.push_back(directory / name);
  std::string looked;
  for (const auto& candidate : candidates) {
    const PathKind kind = kind_of(candidate, ExitCode::usage);
    if (kind != PathKind::nothing && kind != PathKind::folder) return candidate;
    if (&candidate != &candidates[0]) looked += (looked.empty() ? " nor in " : ", ") + candidate.parent_path().string();
  }
  if (is_folder(candidates[0], ExitCode::usage))
    fail(ExitCode::usage, "--config ", in_quotes(name), ": it is a folder; give the path of a file, or leave it out");
  fail(ExitCode::usage, "--config ", in_quotes(name), ": there is no such file here", looked,
       "; give a path, or leave it out for default.yaml");
}

std::filesystem::path installed_configs(const std::filesystem::path& executable) {
  return executable.parent_path().parent_path() / "share" / "cifar-train" / "configs";
}

}  // namespace ct
