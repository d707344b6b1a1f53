#include "comm/rendezvous/rendezvous.h"

#include <unistd.h>

#include <cstring>
#include <thread>

#include "base/utf8.h"
#include "comm/rendezvous/hello.h"
#include "target.h"

namespace ct::fuzz::rendezvous {
namespace {

constexpr int kRanks = 3;
constexpr double kPatience = 0.02;

/// What a Hello of the job would have, where the flag asks for it.
void fill(Hello& hello, uint8_t flags, const std::string& job) {
  const Hello right = hello_of(job);
  if ((flags & 1) != 0) hello.magic = right.magic;
  if ((flags & 2) != 0) hello.job = right.job;
  if ((flags & 4) != 0) hello.program = right.program;
  if ((flags & 8) != 0) hello.size = kRanks;
  if ((flags & 16) != 0) hello.rank = 1 + (hello.rank & 1);
}

/// Rank 0 hears connections, each with flags and a message, whole or cut.
void hear_ranks(Input input) {
  const Listener listener(kRanks);
  const sockaddr_in at = socket_address(htonl(INADDR_LOOPBACK), listener.endpoint().port);
  std::vector<Connection> lines;
  for (constexpr size_t kMost = 8; !input.empty() && lines.size() < kMost;) {
    const auto flags = std::to_integer<uint8_t>(input[0]);
    const Input part = input.subspan(1, std::min(input.size() - 1, sizeof(Hello)));
    input = input.subspan(1 + part.size());
    Hello hello;
    std::memcpy(&hello, part.data(), part.size());
    fill(hello, flags, listener.endpoint().job);
    lines.push_back(connect_to(at, std::chrono::seconds(1)));
    lines.back().send((flags & 32) != 0 ? part : bytes_of(hello));
  }
  for (Connection& line : lines) line.finish();
  const auto notice = [](const std::string& text) {
    if (printable(text) != text) fail(ExitCode::bug, "not one printable line");
  };
  const Star star = listener.accept_ranks({.timeout_s = kPatience, .notice = notice});
  for (const std::string& name : star.names)
    if (printable(name) != name) fail(ExitCode::bug, "not one printable line");
}

/// A rank hears rank 0, whose replies are the input.
void hear_rank_0(Input input) {
  const int listener = stream_socket();
  sockaddr_in at = socket_address(htonl(INADDR_LOOPBACK), 0);
  socklen_t length = sizeof at;
  check(bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 && listen(listener, 1) == 0 &&
            getsockname(listener, reinterpret_cast<sockaddr*>(&at), &length) == 0,
        "no port");
  const Endpoint endpoint{.addresses = {"127.0.0.1"}, .port = ntohs(at.sin_port)};
  const std::jthread rank_0([&](const std::stop_token& stop) {
    Connection line;
    while (!line.open() && !stop.stop_requested()) {
      if (const int fd = accept(listener, nullptr, nullptr); fd >= 0) line = Connection(fd);
      std::this_thread::yield();
    }
    close(listener);  // a second attempt is refused
    for (std::vector<std::byte> hello(sizeof(Hello)); line.open() && !line.next(hello);) line.exchange(10);
    while (!input.empty()) {
      Reply reply;
      const Input part = input.first(std::min(input.size(), sizeof reply - sizeof reply.magic));
      std::memcpy(reinterpret_cast<std::byte*>(&reply) + sizeof reply.magic, part.data(), part.size());
      input = input.subspan(part.size());
      line.send(bytes_of(reply));
    }
    line.finish();
  });
  connect_to_rank_0(endpoint, 1, kRanks, {.timeout_s = kPatience});
}

void read(Input input) {
  if (input.empty()) return;
  (input[0] == std::byte{0} ? hear_rank_0 : hear_ranks)(input.subspan(1));
}

const Registered registered({.name = "rendezvous", .refusals = {}, .read = read});

}  // namespace
}  // namespace ct::fuzz::rendezvous
