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
void run_on_all_ranks(Bootstrap& ranks, const std::function<void()>& work);

/// Rank 0's text, on every rank.
std::string from_rank_0(Bootstrap& ranks, const std::string& text);
std::string from_rank_0(Communicator& comm, std::string text);

/// Every rank's items of plain data, one after the other by rank.
template <class T>
std::vector<T> gather(Bootstrap& ranks, std::span<const T> mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all;
  for (const std::string& bytes : ranks.gather({reinterpret_cast<const char*>(mine.data()), mine.size_bytes()})) {
    const size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  return all;
}

}  // namespace ct
