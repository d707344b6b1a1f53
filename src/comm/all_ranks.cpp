#include "comm/all_ranks.h"

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

void run_on_all_ranks(Bootstrap& ranks, const std::function<void()>& work) {
  const std::optional<Error> mine = error_of(work);
  if (ranks.size() == 1) {
    if (mine) throw Error(*mine);
    return;
  }
  // One byte of exit code, then the message; nothing: all is well.
  std::string text;
  if (mine)
    text = str(static_cast<char>(mine->code()), "rank ", ranks.rank(), " on host ", host_name(), ": ", mine->what());
  for (const std::string& error : ranks.gather(text))
    if (!error.empty()) throw Error(exit_code_of_peer(static_cast<uint8_t>(error[0])), error.substr(1));
}

ExitCode exit_code_of_peer(int32_t code) {
  constexpr int32_t kLargest = 255;
  return code > 0 && code <= kLargest ? static_cast<ExitCode>(code) : ExitCode::peer;
}

std::string from_rank_0(Bootstrap& ranks, const std::string& text) {
  return ranks.gather(ranks.rank() == 0 ? text : "")[0];
}

std::string from_rank_0(Communicator& comm, std::string text) {
  uint64_t size = text.size();
  comm.broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
  text.resize(size);
  if (size > 0) comm.broadcast(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

}  // namespace ct
