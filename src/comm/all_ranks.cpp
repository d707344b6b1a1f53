#include "comm/all_ranks.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/host.h"
#include "base/in_flight.h"

namespace ct {
namespace {

std::optional<Error> error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception&) {
    return error_in_flight();
  }
  return std::nullopt;
}

}  // namespace

void run_on_all_ranks(Communicator& comm, const std::function<void()>& work) {
  const std::optional<Error> mine = error_of(work);
  if (comm.size() == 1) {
    if (mine) throw Error(*mine);
    return;
  }
  // One byte of exit code, then the message; nothing: all is well.
  std::string text;
  if (mine)
    text = str(static_cast<char>(mine->code()), "rank ", comm.rank(), " on host ", host_name(), ": ", mine->what());
  for (const auto& bytes : gather_bytes(comm, std::as_bytes(std::span(text)))) {
    if (bytes.empty()) continue;
    const std::string message(reinterpret_cast<const char*>(bytes.data()) + 1, bytes.size() - 1);
    throw Error(static_cast<ExitCode>(bytes[0]), message);
  }
}

std::string from_rank_0(Communicator& comm, std::string text) {
  uint64_t size = text.size();
  comm.broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
  text.resize(size);
  if (size > 0) comm.broadcast(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

std::vector<std::vector<std::byte>> gather_bytes(Communicator& comm, std::span<const std::byte> mine) {
  std::vector<uint64_t> sizes(static_cast<size_t>(comm.size()));
  const uint64_t size = mine.size();
  comm.gather_all(std::as_bytes(std::span(&size, 1)), std::as_writable_bytes(std::span(sizes)));
  const uint64_t largest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<std::vector<std::byte>> result(sizes.size());
  if (largest == 0) return result;
  std::vector<std::byte> padded(mine.begin(), mine.end()), all(largest * sizes.size());
  padded.resize(largest);
  comm.gather_all(padded, all);
  for (size_t r = 0; r < sizes.size(); ++r) {
    const auto first = all.begin() + static_cast<ptrdiff_t>(r * largest);
    result[r].assign(first, first + static_cast<ptrdiff_t>(sizes[r]));
  }
  return result;
}

}  // namespace ct
