#include "cli/config_lookup.h"

#include <fstream>
#include <string_view>
#include <vector>

#include "train/config/find.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

/// The source tree that a build folder belongs to, as CMake noted it there; empty: no build folder.
fs::path source_of_build(const fs::path& folder) {
  constexpr std::string_view kEntry = "CMAKE_HOME_DIRECTORY:INTERNAL=";
  std::ifstream cache(folder / "CMakeCache.txt");
  for (std::string line; std::getline(cache, line);)
    if (line.starts_with(kEntry)) return line.substr(kEntry.size());
  return {};
}

/// The source's configs/, looked for upward from the executable: nothing compiled in that a move could turn into a lie.
fs::path source_configs(const fs::path& executable) {
  std::error_code error;
  for (fs::path folder = executable.parent_path(); folder.has_relative_path(); folder = folder.parent_path())
    for (const fs::path& source : {folder, source_of_build(folder)})
      if (!source.empty() && fs::exists(source / "configs" / "default.yaml", error) &&
          fs::exists(source / "CMakeLists.txt", error))
        return source / "configs";
  return {};
}

}  // namespace

fs::path locate_config(const std::string& name) {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  std::vector<fs::path> directories;
  if (!error) {
    if (const fs::path configs = source_configs(executable); !configs.empty()) directories.push_back(configs);
    directories.push_back(installed_configs(executable));
  }
  return find_config(name, directories);
}

}  // namespace ct
