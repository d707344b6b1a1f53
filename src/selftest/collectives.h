// The collectives of training in a device's memory: launched, recorded and replayed, against sums on the host.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/backend.h"

namespace ct {

struct CollectiveResult {
  std::string name;     // "reduce_scatter of even ranges, canonical order, 3 micro-steps"
  std::string problem;  // empty: the expected bits, whether launched or replayed
};

/// Tries each collective as training has it: in the canonical order and in the library's, ranges that NCCL's own
/// collectives take and others, one and several micro-steps. Each is launched, then recorded and replayed three times,
/// with other numbers every time. One rank is enough: NCCL then sends to itself. `numel`: floats that a rank owns of a
/// buffer. Collective. Throws what the device or the library reports.
std::vector<CollectiveResult> run_collectives(Backend& backend, Communicator& comm, int64_t numel = 50'000);

}  // namespace ct
