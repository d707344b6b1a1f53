// Does this machine have an NVIDIA GPU? Asked of the system's files: there may be no driver.
#pragma once

#include <filesystem>

namespace ct::cuda {

/// By its device file, the driver that WSL lends, or as a display or compute controller on the PCI bus. `root` is "/",
/// or a folder that imitates it.
bool gpu_here(const std::filesystem::path& root = "/");

}  // namespace ct::cuda
