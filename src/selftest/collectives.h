// Tests the collectives of training in device memory, launched, recorded and replayed, against sums on the host.
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

/// Tests the collectives of training: in the canonical order and in the library's, with ranges for NCCL's own
/// collectives and others, with one and several micro-steps. Each is launched, then recorded and replayed three times,
/// with different numbers each time. One rank is enough: NCCL then sends to itself. `numel`: floats of a buffer that a
/// rank owns. Collective. Throws errors of the device and the library.
std::vector<CollectiveResult> run_collectives(Backend& backend, Communicator& comm, int64_t numel = 50'000);

}  // namespace ct
