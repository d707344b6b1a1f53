#include "comm/communicator.h"

#include <algorithm>

#include "base/error.h"

namespace ct {

void check_bounds(const ShardBounds& bounds, int ranks, size_t numel) {
  check(bounds.size() == static_cast<size_t>(ranks) + 1 && bounds.front() == 0 &&
            bounds.back() == static_cast<int64_t>(numel) && std::is_sorted(bounds.begin(), bounds.end()),
        "shard bounds do not cut ", numel, " elements into ", ranks, " slices");
}

}  // namespace ct
