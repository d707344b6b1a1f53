// Small agreements between ranks, over the control plane.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

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

/// Does any rank say so?
bool any_rank(Communicator& comm, bool mine);

/// What is said under each name, in the order of telling.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Unless all ranks say the same, all throw the same Error(usage): it names the first rank that differs from rank 0,
/// its host, the first fact in which it differs, both values and `remedy`.
void require_same(Communicator& comm, const Facts& mine, const std::string& remedy);

/// require_same of what decides bits beside the configuration: Backend::description() and the program's version.
void require_same_machine(Communicator& comm, const std::string& device);

/// require_same of every key that counts.
void require_same_config(Communicator& comm, const Config& config);

/// CRC32C of every parameter as this rank computes with it; empty where ranks keep no whole copies (ZeRO stage 3).
std::vector<uint32_t> replica_checksums(Engine& engine, const Graph& graph);

/// Ranks that keep whole copies of the weights must have the same ones (communication.check_interval): throws
/// Error(bug) on the first rank whose copy differs from rank 0's, naming rank, host and tensor. Collective.
void require_same_replicas(Communicator& comm, Engine& engine, const Graph& graph);

/// Agreement to stop on request. Ranks must stop after the same step, so a request counts only once all have heard of
/// it: they compare notes every so often, at steps that rank 0's clock chose at the vote before.
class StopVote {
 public:
  StopVote(Communicator& comm, int64_t step) : comm_(comm), next_(step) {}

  bool due(int64_t step) const { return comm_.size() == 1 || step >= next_; }
  /// Has anybody been asked to stop? Collective, at the steps at which it is due.
  bool take(int64_t step, double seconds_a_step) {
    const bool asked = StopSignals::requested() != 0;
    if (comm_.size() == 1) return asked;
    const double steps = std::clamp(kSeconds / std::max(seconds_a_step, 1e-9), 1.0, 10000.0);
    next_ = step + broadcast_value(comm_, static_cast<int64_t>(steps));
    return any_rank(comm_, asked);
  }

 private:
  static constexpr double kSeconds = 0.02;  // that a request may wait, if a step takes no longer

  Communicator& comm_;
  int64_t next_;
};

}  // namespace ct
