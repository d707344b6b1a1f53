#include "base/host.h"

#include <netdb.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include "base/control_groups.h"
#include "base/text.h"
#include "base/utf8.h"

namespace ct {
namespace {

/// A number that is alone in a file or follows a key in it.
std::optional<int64_t> number_in(const std::filesystem::path& path, const std::string& key = "") {
  std::ifstream file(path);
  std::string word;
  int64_t value = 0;
  if (!key.empty())
    while (file >> word && word != key) continue;
  return file >> value ? std::optional(value) : std::nullopt;
}
/// Files of /proc count in KiB.
std::optional<int64_t> bytes_in(const std::filesystem::path& path, const std::string& key) {
  const auto kib = number_in(path, key);
  return kib ? std::optional(1024 * *kib) : std::nullopt;
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return printable(name);
}

std::string pid_space() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code error;
  const std::filesystem::path pids = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  return boot.empty() || error ? "unknown" : boot + "/" + pids.native();
}

bool is_own_address(const sockaddr* address, socklen_t bytes) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool own = fd >= 0 && bind(fd, address, bytes) == 0;
  if (fd >= 0) close(fd);
  return own;
}

bool is_this_host(const std::string& name) {
  const std::string own = lower_case(host_name()), asked = lower_case(name);
  for (const std::string& known : {std::string("localhost.localdomain"), own})
    if (asked == known || asked == known.substr(0, known.find('.'))) return true;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return false;
  bool is_own = false;
  for (const addrinfo* i = found; i != nullptr && !is_own; i = i->ai_next)
    is_own = is_own_address(i->ai_addr, i->ai_addrlen);
  freeaddrinfo(found);
  return is_own;
}

int64_t peak_resident_bytes() {
  if (const auto bytes = bytes_in("/proc/self/status", "VmHWM:")) return *bytes;
  rusage usage{};  // counts the process before its exec too, which may be the copy of a larger one
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

int64_t proportional_bytes() { return bytes_in("/proc/self/smaps_rollup", "Pss:").value_or(0); }

HostMemory host_memory(const std::filesystem::path& root) {
  HostMemory memory{.total = bytes_in(root / "proc/meminfo", "MemTotal:").value_or(0),
                    .available = bytes_in(root / "proc/meminfo", "MemAvailable:").value_or(0)};
  std::vector<std::filesystem::path> groups = control_groups(root, "memory");
  groups.insert(groups.end(), {root / "sys/fs/cgroup", root / "sys/fs/cgroup/memory"});  // where none is listed
  for (const auto& group : groups)
    for (const auto& [limit_file, used_file] :
         {std::pair{"memory.max", "memory.current"}, {"memory.limit_in_bytes", "memory.usage_in_bytes"}}) {
      const auto limit = number_in(group / limit_file), used = number_in(group / used_file);
      if (!limit || !used || *limit >= memory.total) continue;
      memory.group_limit = std::min(memory.group_limit.value_or(*limit), *limit);
      memory.available = std::min(memory.available, *limit - std::min(*limit, *used));
    }
  rlimit limit{};
  const auto used = bytes_in(root / "proc/self/status", "VmSize:");
  if (used && getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    memory.available = std::min(memory.available, std::max<int64_t>(static_cast<int64_t>(limit.rlim_cur) - *used, 0));
  return memory;
}

}  // namespace ct
