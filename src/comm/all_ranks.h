// Doing one thing by all ranks, so that it fails on all of them or on none, and nobody waits for a rank that has
// failed.
#pragma once

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/communicator.h"

namespace ct {

/// Runs `work` on this rank and returns when all ranks have done so. Where it threw on any rank, all throw the same
/// Error: that of the first such rank, which it names if there are several.
void run_on_all_ranks(Communicator& comm, const std::function<void()>& work);

/// Rank 0's text, on every rank.
std::string from_rank_0(Communicator& comm, std::string text);

/// Every rank's bytes, by rank; each may have another number of them.
std::vector<std::vector<std::byte>> gather_bytes(Communicator& comm, std::span<const std::byte> mine);

/// Every rank's items of plain data, one after the other by rank.
template <class T>
std::vector<T> gather(Communicator& comm, std::span<const T> mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all;
  for (const auto& bytes : gather_bytes(comm, std::as_bytes(mine))) {
    const size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  return all;
}

}  // namespace ct
