// Where a configuration named on the command line lies.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ct {

/// `name` as given, else, when it is relative, below the first of `directories` (the source's configs/, the installed
/// ones) that has it; "configs/NAME" is there what "NAME" is. Throws Error(usage) that begins with the option that
/// named it (empty: none) and lists where it looked.
std::filesystem::path find_config(const std::string& name, const std::vector<std::filesystem::path>& directories,
                                  std::string_view option = "--config");

/// The installed configurations of an executable at PREFIX/bin/: PREFIX/share/cifar-train/configs.
std::filesystem::path installed_configs(const std::filesystem::path& executable);

}  // namespace ct
