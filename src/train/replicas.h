// Ranks that keep whole copies of the weights must have the same ones: communication.check_interval.
#pragma once

#include "comm/communicator.h"
#include "engine/engine.h"

namespace ct {

/// CRC32C of every parameter as this rank computes with it; empty where ranks keep no whole copies (ZeRO stage 3).
std::vector<uint32_t> replica_checksums(Engine& engine, const Graph& graph);

/// Throws Error(bug) on the first rank whose copy differs from rank 0's, naming rank, host and tensor. Collective.
void require_same_replicas(Communicator& comm, Engine& engine, const Graph& graph);

}  // namespace ct
