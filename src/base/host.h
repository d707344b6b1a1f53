// What the operating system says of this process and machine.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ct {

std::string host_name();
/// Is this an address of this host, whatever its port?
bool is_own_address(const sockaddr* address, socklen_t bytes);
/// Does the name, or the number of an address, lead to this host? A name that nobody knows does not.
bool is_this_host(const std::string& name);
/// The process's largest resident set so far, bytes (VmHWM): of this program only, not of what started it.
int64_t peak_resident_bytes();
/// The process's resident set now, pages that it shares counted in proportion (Pss), bytes; 0 where it is not told.
int64_t proportional_bytes();

struct HostMemory {
  int64_t total = 0;      // bytes
  int64_t available = 0;  // without swapping, for new processes: of the machine and of this process's control group
  std::optional<int64_t> group_limit;  // of the control group, where it allows less than there is
};
/// `root` is "/", or a folder that imitates it. What the system does not say is 0.
HostMemory host_memory(const std::filesystem::path& root = "/");

}  // namespace ct
