// Runs a function on all ranks, so that it fails on all of them or on none, and no rank waits for a failed one.
#pragma once

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"

namespace ct {

/// Runs `work` on this rank and returns when all ranks have run it. If it throws on any rank, all ranks throw the Error
/// of the first such rank; with several ranks the message names that rank.
void run_on_all_ranks(Bootstrap& ranks, const std::function<void()>& work);

/// The exit code of a failure that another process has sent, or ExitCode::peer if it is none: a failed process must not
/// end like one that succeeded.
ExitCode exit_code_of_peer(int32_t code);

/// Rank 0's text, on every rank.
std::string from_rank_0(Bootstrap& ranks, const std::string& text);
std::string from_rank_0(Communicator& comm, std::string text);

/// The items of all ranks, concatenated in rank order.
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
