// Where a configuration named on the command line lies.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ct {

/// `name` as given, else, when it is relative, below the first of `directories` (the source's configs/, the installed
/// ones) that has it. Throws Error(usage) that lists where it looked.
std::filesystem::path find_config(const std::string& name, const std::vector<std::filesystem::path>& directories);

/// The installed configurations of an executable at PREFIX/bin/: PREFIX/share/cifar-train/configs.
std::filesystem::path installed_configs(const std::filesystem::path& executable);

}  // namespace ct
