// Agreements between ranks, over the control plane.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "comm/all_ranks.h"
#include "engine/engine.h"
#include "train/config/config.h"
#include "train/signals.h"

namespace ct {

/// Rank 0's value, on every rank; T is plain data.
template <class T>
T broadcast_value(Communicator& comm, T value) {
  comm.broadcast(std::as_writable_bytes(std::span(&value, 1)), 0);
  return value;
}

/// Is `mine` true on any rank?
bool any_rank(Communicator& comm, bool mine);

/// Values by name, in order.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Unless all ranks have the same facts, all throw the same Error(usage), with the first rank that differs from rank 0,
/// its host, the first fact that differs, both values and `remedy`.
void require_same(Communicator& comm, const Facts& mine, const std::string& remedy);

/// require_same for the facts outside the configuration that determine bits: Backend::description() and the program's
/// version.
void require_same_machine(Communicator& comm, const std::string& device);

/// require_same for every effective key.
void require_same_config(Communicator& comm, const Config& config);

/// require_same for the contents of a file that all ranks read; an empty path, or a folder, is not looked at.
void require_same_file(Communicator& comm, const Path& file);

/// CRC32C of every parameter, in the copy of the weights with which this rank computes; empty if ranks have no whole
/// copies (ZeRO stage 3).
std::vector<uint32_t> replica_checksums(Engine& engine, const Graph& graph);

/// Checks that the ranks' whole copies of the weights are equal (communication.check_interval). `mine`: this rank's
/// checksum of each parameter. Throws Error(bug) with the first tensor that differs, and with rank and host of the
/// first copy that is not that of most ranks; without a majority, of rank 0. Collective.
void require_same_replicas(Communicator& comm, std::span<const uint32_t> mine, std::span<const Parameter> parameters);

/// Agreement to stop on request. Ranks must stop after the same step, so a request takes effect only at a vote of all
/// ranks. At each vote rank 0's clock determines the step of the next one.
class StopVote {
 public:
  StopVote(Communicator& comm, int64_t step) : comm_(comm), next_(step) {}

  bool due(int64_t step) const { return comm_.size() == 1 || step >= next_; }
  /// Has any rank been asked to stop? Collective, at the steps at which due() is true.
  bool take(int64_t step, double seconds_a_step) {
    const bool asked = StopSignals::requested() != 0;
    if (comm_.size() == 1) return asked;
    const double steps = std::clamp(kSeconds / std::max(seconds_a_step, 1e-9), 1.0, 10000.0);
    next_ = step + broadcast_value(comm_, static_cast<int64_t>(steps));
    return any_rank(comm_, asked);
  }

 private:
  static constexpr double kSeconds = 0.02;  // the longest wait of a request, unless a step takes longer

  Communicator& comm_;
  int64_t next_;
};

}  // namespace ct
