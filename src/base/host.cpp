#include "base/host.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace ct {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;  // Linux counts in KiB
}

int64_t proportional_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    if (word != "Pss:") continue;
    int64_t kib = 0;
    file >> kib;
    return 1024 * kib;
  }
  return 0;
}

}  // namespace ct
