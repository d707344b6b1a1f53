#include <cstring>

#include "base/utf8.h"
#include "comm/host/threads.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/watchdog/watchdog_wire.h"
#include "target.h"

namespace ct::fuzz::watchdog {
namespace {

using namespace std::chrono_literals;

/// A rank that is in the star, but says the input: its process first, then messages.
void say(Communicator& comm, Input input) {
  std::array<std::byte, 72> place{};  // the process's number and its host's name
  std::vector<std::byte> places(place.size() * 2);
  const Input part = input.first(std::min(input.size(), place.size()));
  std::memcpy(place.data(), part.data(), part.size());
  comm.gather_all(place, places);
  Star star = make_star(comm, 20);
  Connection& line = star.to[comm.rank() == 0 ? 1 : 0];
  line.send(input.subspan(part.size()));
  line.finish();
  for (int i = 0; i < 100 && line.open(); ++i) line.exchange(10);  // what it is told does not matter
}

void hear(Communicator& comm) {
  const int other = 1 - comm.rank();
  const auto wire = make_star_wire(comm, -1);
  const auto is_gone = [&] { return wire->signs()[static_cast<size_t>(other)].gone != 0; };
  for (int i = 0; i < 100 && !is_gone(); ++i) wire->exchange(10ms);
  for (int rank = 0; rank < 2; ++rank) {
    const std::string text = text_of({.rank = rank}, wire->signs()[static_cast<size_t>(rank)], wire->place(rank));
    if (printable(text) != text) fail(ExitCode::bug, "not one printable line");
  }
  if (const auto code = wire->failure(); code && (*code < 1 || *code > 255)) fail(ExitCode::bug, "exit code ", *code);
}

/// The first byte is the rank that hears.
void read(Input input) {
  if (input.empty()) return;
  const int hears = std::to_integer<int>(input[0]) & 1;
  run_ranks(2, [&](Communicator& comm) {
    if (comm.rank() == hears)
      hear(comm);
    else
      say(comm, input.subspan(1));
    return 0;
  });
}

const Registered registered({.name = "watchdog", .refusals = {ExitCode::peer}, .read = read});

}  // namespace
}  // namespace ct::fuzz::watchdog
