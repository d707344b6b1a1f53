#include <thread>

#include "comm/all_ranks.h"
#include "comm/rendezvous/tcp_bootstrap.h"
#include "target.h"

namespace ct::fuzz::agreement {
namespace {

constexpr int kRanks = 2;
const RendezvousOptions kOptions = {.timeout_s = 5};

/// The rank that says the input, in place of texts with their lengths, and leaves.
void say(int rank, const Endpoint& at, Input input) {
  Star star = rank == 0 ? Listener(at, kRanks).accept_ranks(kOptions) : connect_to_rank_0(at, rank, kRanks, kOptions);
  Connection& line = star.to[rank == 0 ? 1 : 0];
  line.send(input);
  line.finish();
  for (int i = 0; i < 100 && line.open(); ++i) line.exchange(10);
}

/// The first byte is the rank that hears: two agreements of the start, of which one passes on errors of others.
void read(Input input) {
  if (input.empty()) return;
  const int hears = std::to_integer<int>(input[0]) & 1;
  const Endpoint at{.addresses = {"127.0.0.1"}, .port = Listener(kRanks).endpoint().port, .job = "fuzz"};
  const std::jthread other([&] {
    try {
      say(1 - hears, at, input.subspan(1));
    } catch (const Error&) {
      // the port went to another process: the rank that hears is alone, too
    }
  });
  TcpBootstrap ranks(hears, kRanks, at, kOptions);
  from_rank_0(ranks, "said");
  run_on_all_ranks(ranks, [] {});
}

const Registered registered({.name = "agreement", .refusals = {}, .read = read});

}  // namespace
}  // namespace ct::fuzz::agreement
