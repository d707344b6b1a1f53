#include "base/memory.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

namespace ct {
namespace {

/// A number that is alone in a file or follows a key in it.
std::optional<int64_t> number_in(const std::filesystem::path& path, const std::string& key = "") {
  std::ifstream file(path);
  std::string word;
  int64_t value = 0;
  if (!key.empty())
    while (file >> word && word != key) continue;
  if (file >> value) return value;
  return std::nullopt;
}

}  // namespace

HostMemory host_memory(const std::filesystem::path& root) {
  HostMemory memory{.total = 1024 * number_in(root / "proc/meminfo", "MemTotal:").value_or(0),
                    .available = 1024 * number_in(root / "proc/meminfo", "MemAvailable:").value_or(0)};
  const auto groups = root / "sys/fs/cgroup";
  for (const auto& [limit_file, used_file] :
       {std::pair{"memory.max", "memory.current"}, {"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"}}) {
    const auto limit = number_in(groups / limit_file), used = number_in(groups / used_file);
    if (!limit || !used || *limit >= memory.total) continue;
    memory.group_limit = limit;
    memory.available = std::min(memory.available, *limit - std::min(*limit, *used));
  }
  return memory;
}

}  // namespace ct
