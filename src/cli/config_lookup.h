// Where configurations lie: the same places for every verb.
#pragma once

#include <filesystem>
#include <string>

namespace ct {

/// `name` as given; else below the configs/ of the source tree that this executable was built in, where it lies in
/// one; else among the installed ones. Throws Error(usage) that lists where it looked.
std::filesystem::path locate_config(const std::string& name);

}  // namespace ct
