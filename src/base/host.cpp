#include "base/host.h"

#include <netdb.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "base/lower_case.h"

namespace ct {
namespace {

/// What a file of /proc says after `key`, in bytes; it counts in KiB.
std::optional<int64_t> bytes_after(const char* path, const std::string& key) {
  std::ifstream file(path);
  int64_t kib = 0;
  for (std::string word; file >> word;)
    if (word == key) return file >> kib ? std::optional(1024 * kib) : std::nullopt;
  return std::nullopt;
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
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
  if (const auto bytes = bytes_after("/proc/self/status", "VmHWM:")) return *bytes;
  rusage usage{};  // counts the process before its exec too, which may be the copy of a larger one
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

int64_t proportional_bytes() { return bytes_after("/proc/self/smaps_rollup", "Pss:").value_or(0); }

}  // namespace ct
