#include "base/host.h"

#include <sys/resource.h>
#include <unistd.h>

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

}  // namespace ct
