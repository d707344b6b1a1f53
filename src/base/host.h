// Facts from the operating system about this process and machine.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ct {

/// Made printable (base/utf8.h): it goes into records, which are UTF-8.
std::string host_name();
/// Which processes this one's pids belong to: the boot's id and the pid namespace (of a container). "unknown": no
/// /proc.
std::string pid_space();
/// Is this an address of this host, with any port?
bool is_own_address(const sockaddr* address, socklen_t bytes);
/// Does the name or IP address belong to this host? False for an unknown name.
bool is_this_host(const std::string& name);
/// The process's largest resident set so far (VmHWM), bytes: of this program only, not of its parent before exec.
int64_t peak_resident_bytes();
/// The process's current resident set, with shared pages counted in proportion (Pss), bytes; 0: unknown.
int64_t proportional_bytes();

struct HostMemory {
  int64_t total = 0;      // bytes
  int64_t available = 0;  // without swapping, in the machine, this process's control group and its ulimit -v
  std::optional<int64_t> group_limit;  // of the control group, if it is less than the total
};
/// `root` is "/", or a folder that imitates it in tests. Unknown values are 0.
HostMemory host_memory(const std::filesystem::path& root = "/");

}  // namespace ct
