// memory_breakdown: what memory a rank's programs were planned to take, and what they and their process have taken.
#pragma once

#include <optional>
#include <string>

#include "device/backend.h"
#include "train/memory/estimate.h"
#include "train/session.h"

namespace ct {

/// Bytes of one rank. Masters in f32 are parameters where layers compute in f32, else among the optimizer's states.
struct MemoryKinds {
  int64_t parameters = 0, gradients = 0, optimizer = 0;
  int64_t activations = 0;  // the arena, in which workspaces lie too
  int64_t workspace = 0;    // the most that one operation takes of it
  int64_t buckets = 0;      // of gradients on their way between ranks
  int64_t snapshot = 0;     // for saving beside training
  int64_t offloaded = 0;    // the optimizer's states in the host's memory
  int64_t other = 0;
  int64_t total() const {
    return parameters + gradients + optimizer + activations + buckets + snapshot + offloaded + other;
  }
};

/// By the estimate that `--dry-run` prints, from the same programs.
MemoryKinds planned_memory(TrainingSession& session, const Config& config);
/// What is allocated now, and `snapshot_bytes` of it for saving.
MemoryKinds used_memory(TrainingSession& session, size_t snapshot_bytes);

/// "memory planned: parameters 248 kB, gradients ..."; kinds of which there is nothing are left out.
std::string memory_line(const std::string& title, const MemoryKinds& kinds);
/// "memory of the process after step 1: 61 MB resident, 70 MB at its peak; GPU 0 (...): 2.1 GB of 140 GB taken".
std::string process_line(const std::string& when, const std::optional<Backend::Room>& room);

}  // namespace ct
