#include "base/control_groups.h"

#include <fstream>

namespace ct {
namespace fs = std::filesystem;

std::vector<fs::path> control_groups(const fs::path& root, const std::string& controller) {
  std::vector<fs::path> folders;
  const auto walk = [&](const fs::path& mount, fs::path group) {
    for (group = group.relative_path(); !group.empty(); group = group.parent_path()) folders.push_back(mount / group);
    folders.push_back(mount);
  };
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // hierarchy:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    const fs::path mounts = root / "sys/fs/cgroup";
    if (controllers.empty()) {
      walk(mounts, group);
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      walk(mounts / controllers, group);
      if (controllers != controller) walk(mounts / controller, group);
    }
  }
  return folders;
}

}  // namespace ct
