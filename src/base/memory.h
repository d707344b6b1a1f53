// How much memory this machine has for its processes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace ct {

struct HostMemory {
  int64_t total = 0;      // bytes
  int64_t available = 0;  // without swapping, for new processes: of the machine and of this process's control group
  std::optional<int64_t> group_limit;  // of the control group, where it allows less than there is
};

/// `root` is "/", or a folder that imitates it. What the system does not tell is 0.
HostMemory host_memory(const std::filesystem::path& root = "/");

}  // namespace ct
