#include "base/host.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <optional>

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

int64_t peak_resident_bytes() {
  if (const auto bytes = bytes_after("/proc/self/status", "VmHWM:")) return *bytes;
  rusage usage{};  // counts the process before its exec too, which may be the copy of a larger one
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

int64_t proportional_bytes() { return bytes_after("/proc/self/smaps_rollup", "Pss:").value_or(0); }

}  // namespace ct
