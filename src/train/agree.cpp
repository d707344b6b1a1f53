#include "train/agree.h"

#include <algorithm>

#include "base/error.h"

namespace ct {

std::string broadcast_text(Communicator& comm, const std::string& text) {
  const size_t size = broadcast_value(comm, text.size());
  std::string result = text;
  result.resize(size);
  if (size > 0) comm.broadcast(std::as_writable_bytes(std::span(result)), 0);
  return result;
}

bool any_rank(Communicator& comm, bool mine) {
  std::vector<std::byte> all(static_cast<size_t>(comm.size()));
  const std::byte vote{mine};
  comm.gather_all(std::span(&vote, 1), all);
  return std::any_of(all.begin(), all.end(), [](std::byte b) { return b != std::byte{0}; });
}

void require_same(Communicator& comm, const std::string& what, const std::string& mine) {
  const std::string first = broadcast_text(comm, mine);
  std::vector<std::byte> all(static_cast<size_t>(comm.size()));
  const std::byte differs{mine != first};
  comm.gather_all(std::span(&differs, 1), all);
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r] == std::byte{0}) continue;
    if (static_cast<int>(r) == comm.rank())
      fail(ExitCode::usage, "rank ", r, " has another ", what, " than rank 0: ", mine, " against ", first,
           "; start all ranks with the same program, configuration and kind of machine");
    fail(ExitCode::peer, "rank ", r, " has another ", what, " than rank 0");
  }
}

}  // namespace ct
