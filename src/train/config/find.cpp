#include "train/config/find.h"

#include "base/error.h"
#include "base/paths.h"

namespace ct {

std::filesystem::path find_config(const std::string& name, const std::vector<std::filesystem::path>& directories,
                                  std::string_view option) {
  std::vector<std::filesystem::path> candidates = {name};
  if (!name.empty() && candidates[0].is_relative())
    for (const auto& directory : directories) {
      // As files of a job name those that are shipped, from the folder that holds configs/.
      const bool from_above = *candidates[0].begin() == directory.filename();
      candidates.push_back((from_above ? directory.parent_path() : directory) / name);
    }
  std::string looked;
  for (const auto& candidate : candidates) {
    const PathKind kind = kind_of(candidate, ExitCode::usage);
    if (kind != PathKind::nothing && kind != PathKind::folder) return candidate;
    if (&candidate != &candidates[0]) looked += (looked.empty() ? " nor in " : ", ") + candidate.parent_path().string();
  }
  const std::string culprit = str(option, option.empty() ? "" : " ", in_quotes(name));
  if (is_folder(candidates[0], ExitCode::usage))
    fail(ExitCode::usage, culprit, ": it is a folder; give the path of a file");
  if (name.starts_with("/dev/fd/") || name.starts_with("/proc/self/fd/"))
    fail(ExitCode::usage, culprit,
         ": nothing is open here under this name: mpirun and other launchers hand no pipe, as <(...) is one, on to "
         "ranks; write its text into a file");
  fail(ExitCode::usage, culprit, ": there is no such file here", looked,
       option == "--config" ? "; give a path, or leave it out for default.yaml" : "; give a path");
}

std::filesystem::path installed_configs(const std::filesystem::path& executable) {
  return executable.parent_path().parent_path() / "share" / "cifar-train" / "configs";
}

}  // namespace ct
