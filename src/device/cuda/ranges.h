// Named ranges in a profiler's timeline (NVTX; Nsight Systems shows them).
#pragma once

#include <string>

namespace ct::cuda {

/// A named range on the host's thread, for the lifetime of this object.
class Range {
 public:
  explicit Range(const std::string& name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace ct::cuda
