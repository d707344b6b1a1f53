// The control groups (cgroups) of this process, which limit its cores and its memory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ct {

/// The folders of this process's groups of a controller ("cpu", "memory"), of version 2 or 1, and of all their
/// ancestors, each of which may have a limit. `root` is "/", or a folder that imitates it in tests. In a container the
/// listed path may be the host's: folders that do not exist have no limit, and the mount's root is then the container's
/// own group.
std::vector<std::filesystem::path> control_groups(const std::filesystem::path& root, const std::string& controller);

}  // namespace ct
