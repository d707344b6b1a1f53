// Small agreements between ranks, over the control plane.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/together.h"
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

/// Unless all ranks say the same, the first rank that differs from rank 0 throws Error(usage), which names it, its
/// host, the first fact in which it differs, both values and `remedy`; the others wait for it to end the job, with its
/// code.
void require_same(Communicator& comm, const Facts& mine, const std::string& remedy);

/// require_same of one fact that follows from the program and the machine, such as its instruction set.
void require_same(Communicator& comm, const std::string& what, const std::string& mine);

/// require_same of every key that counts.
void require_same_config(Communicator& comm, const Config& config);

}  // namespace ct
