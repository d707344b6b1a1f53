#include "comm/meeting/place.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace ct {
namespace {

constexpr int kPortsAboveAgent = 16;

const char* required(const Environment& environment, const char* variable) {
  const char* text = environment(variable);
  if (text == nullptr || *text == '\0')
    fail(ExitCode::usage, variable, " is not set: RANK and WORLD_SIZE tell of several ranks, which meet at ",
         "MASTER_ADDR and MASTER_PORT; torchrun and cifar-train launch set all of them");
  return text;
}

}  // namespace

MeetingPlace meeting_place(const Environment& environment) {
  MeetingPlace place{.address = required(environment, "MASTER_ADDR")};
  const char* port = required(environment, "MASTER_PORT");
  const char* end = port + std::strlen(port);
  const auto [stop, error] = std::from_chars(port, end, place.port);
  if (error != std::errc() || stop != end || place.port < 1 || place.port > 65535)
    fail(ExitCode::usage, "MASTER_PORT='", port, "' is no TCP port: give a number from 1 to 65535");
  const char* agent = environment("TORCHELASTIC_USE_AGENT_STORE");
  if (agent != nullptr && std::string_view(agent) == "True") {  // which has the port itself
    place.port += 1;
    place.ports = kPortsAboveAgent;
    if (place.port + place.ports > 65536)
      fail(ExitCode::usage, "MASTER_PORT=", port, ": torchrun has it, and ranks meet at one of the ", kPortsAboveAgent,
           " above: give a smaller one by --master-port or --rdzv-endpoint");
  }
  for (const char* variable : {"TORCHELASTIC_RUN_ID", kJobVariable}) {
    const char* job = environment(variable);
    if (job != nullptr && *job != '\0') {
      place.job = job;
      break;
    }
  }
  return place;
}

std::string text_of(const MeetingPlace& place) {
  const std::string first = str(place.address, ":", place.port);
  return place.ports == 1 ? first : str(first, "-", place.port + place.ports - 1);
}

}  // namespace ct
