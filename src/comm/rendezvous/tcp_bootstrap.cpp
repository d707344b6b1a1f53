#include "comm/rendezvous/tcp_bootstrap.h"

#include <span>
#include <utility>

namespace ct {
namespace {

constexpr uint64_t kLongestText = uint64_t{32} << 20;

}  // namespace

TcpBootstrap::TcpBootstrap(int rank, int size, const Endpoint& at, const RendezvousOptions& options)
    : rank_(rank),
      size_(size),
      options_(options),
      star_(rank == 0 ? Listener(at, size).accept_ranks(options) : connect_to_rank_0(at, rank, size, options)) {}

std::vector<std::string> TcpBootstrap::gather(std::string_view mine) {
  const auto end = options_.deadline();
  const auto wait_until = [&](size_t rank, const auto& holds) {
    Connection& line = star_.to[rank];
    while (!holds(line)) {
      if (!line.open())
        fail(ExitCode::peer, star_.names[rank], " was lost while ranks connected: start the same command again");
      options_.throw_if_stopped();
      if (std::chrono::steady_clock::now() >= end)
        fail(ExitCode::peer, star_.names[rank], " is silent for ", options_.timeout_s, " s");
      line.exchange(100);
    }
  };
  const auto write = [&](size_t rank, std::string_view text) {
    const uint64_t length = text.size();
    star_.to[rank].send(bytes_of(length));
    star_.to[rank].send(std::as_bytes(std::span(text)));
    wait_until(rank, [](const Connection& line) { return !line.sending(); });
  };
  const auto read = [&](size_t rank) {
    uint64_t length = 0;
    wait_until(rank, [&](Connection& line) { return line.next(room_of(length)); });
    if (length > kLongestText) fail(ExitCode::peer, star_.names[rank], " sent too much: ", length, " bytes");
    std::string text(length, '\0');
    wait_until(rank, [&](Connection& line) { return line.next(std::as_writable_bytes(std::span(text))); });
    return text;
  };

  std::vector<std::string> all(static_cast<size_t>(size_));
  if (rank_ == 0) {
    all[0] = mine;
    for (size_t rank = 1; rank < all.size(); ++rank) all[rank] = read(rank);
    for (size_t rank = 1; rank < all.size(); ++rank)
      for (const std::string& text : all) write(rank, text);
  } else {
    write(0, mine);
    for (std::string& text : all) text = read(0);
  }
  return all;
}

}  // namespace ct
