// Small agreements between ranks, over the control plane.
#pragma once

#include <span>
#include <string>

#include "comm/communicator.h"

namespace ct {

/// Rank 0's text, on every rank.
std::string broadcast_text(Communicator& comm, const std::string& text);

/// Rank 0's value, on every rank; T is plain data.
template <class T>
T broadcast_value(Communicator& comm, T value) {
  comm.broadcast(std::as_writable_bytes(std::span(&value, 1)), 0);
  return value;
}

/// Does any rank say so?
bool any_rank(Communicator& comm, bool mine);

/// Throws Error(usage) on every rank, naming the first that differs from rank 0, unless all say the same.
void require_same(Communicator& comm, const std::string& what, const std::string& mine);

}  // namespace ct
