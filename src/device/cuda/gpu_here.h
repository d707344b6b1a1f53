// Does this machine have an NVIDIA GPU? Determined from the system's files, because there may be no driver.
#pragma once

#include <filesystem>

namespace ct::cuda {

/// Detects a device file, WSL's driver, or a display or compute controller on the PCI bus. `root` is "/", or a folder
/// that imitates it in tests.
bool gpu_here(const std::filesystem::path& root = "/");

}  // namespace ct::cuda
