// Small agreements between ranks, over the control plane.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/all_ranks.h"
#include "engine/engine.h"
#include "train/config/config.h"

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

// ---- copies of the weights, where ranks keep whole ones: communication.check_interval

/// CRC32C of every parameter as this rank computes with it; empty where ranks keep no whole copies (ZeRO stage 3).
std::vector<uint32_t> replica_checksums(Engine& engine, const Graph& graph);

/// Throws Error(bug) on the first rank whose copy differs from rank 0's, naming rank, host and tensor. Collective.
void require_same_replicas(Communicator& comm, Engine& engine, const Graph& graph);

}  // namespace ct
