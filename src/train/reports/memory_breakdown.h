// memory_breakdown: the planned memory of a rank's programs, and the used memory of these and of the process.
#pragma once

#include <optional>
#include <string>

#include "device/backend.h"
#include "train/memory/estimate.h"
#include "train/session.h"

namespace ct {

/// Bytes of one rank. Masters in f32 count as parameters if layers compute in f32, otherwise as optimizer state.
struct MemoryKinds {
  int64_t parameters = 0, gradients = 0, optimizer = 0;
  int64_t activations = 0;  // the arena, including workspaces
  int64_t workspace = 0;    // the largest workspace of an operation in the arena
  int64_t buckets = 0;      // buckets of gradients that ranks exchange
  int64_t snapshot = 0;     // for asynchronous saves
  int64_t offloaded = 0;    // optimizer state in host memory
  int64_t images = 0;       // a training set in the GPU's memory
  int64_t other = 0;
  int64_t total() const {
    return parameters + gradients + optimizer + activations + buckets + snapshot + offloaded + images + other;
  }
};

/// The estimate of `--dry-run`, from the same programs.
MemoryKinds planned_memory(TrainingSession& session, const Config& config);
/// The currently allocated memory, of which `snapshot_bytes` are for saving.
MemoryKinds used_memory(TrainingSession& session, size_t snapshot_bytes);

/// "memory planned: parameters 248 kB, gradients ..."; kinds with 0 bytes are left out.
std::string memory_line(const std::string& title, const MemoryKinds& kinds);
/// "memory of the process after step 1: 61 MB resident, 70 MB at its peak; GPU 0 (...): 2.1 GB of 140 GB taken".
std::string process_line(const std::string& when, const std::optional<Backend::Room>& room);

}  // namespace ct
