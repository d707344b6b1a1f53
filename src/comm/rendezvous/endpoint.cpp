#include "comm/rendezvous/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace ct {
namespace {

constexpr int kPortsAboveAgent = 16;

const char* required(const Environment& environment, const char* variable) {
  const char* text = environment(variable);
  if (text == nullptr || *text == '\0')
    fail(ExitCode::usage, variable, " is not set: RANK and WORLD_SIZE mean several ranks, which connect at ",
         "MASTER_ADDR and MASTER_PORT; torchrun and cifar-train launch set all of them");
  return text;
}

std::string dotted(in_addr_t address) {
  std::array<char, INET_ADDRSTRLEN> name{};
  inet_ntop(AF_INET, &address, name.data(), name.size());
  return name.data();
}

}  // namespace

Endpoint endpoint_of(const Environment& environment) {
  Endpoint at{.addresses = {required(environment, "MASTER_ADDR")}};
  const char* port = required(environment, "MASTER_PORT");
  const char* end = port + std::strlen(port);
  const auto [stop, error] = std::from_chars(port, end, at.port);
  if (error != std::errc() || stop != end || at.port < 1 || at.port > 65535)
    fail(ExitCode::usage, "MASTER_PORT=", in_quotes(port), " is not a TCP port: give a number from 1 to 65535");
  const char* agent = environment("TORCHELASTIC_USE_AGENT_STORE");
  if (agent != nullptr && std::string_view(agent) == "True") {  // which has the port itself
    at.port += 1;
    at.ports = kPortsAboveAgent;
    if (at.port + at.ports > 65536)
      fail(ExitCode::usage, "MASTER_PORT=", port, ": torchrun uses it, and ranks connect at one of the ",
           kPortsAboveAgent, " above: give a smaller one by --master-port or --rdzv-endpoint");
  }
  for (const char* variable : {"TORCHELASTIC_RUN_ID", kJobVariable}) {
    const char* job = environment(variable);
    if (job != nullptr && *job != '\0') {
      at.job = job;
      break;
    }
  }
  return at;
}

std::string text_of(const Endpoint& endpoint) {
  const std::string text = str(joined(endpoint.addresses, " or "), ":", endpoint.port);
  return endpoint.ports == 1 ? text : str(text, "-", endpoint.port + endpoint.ports - 1);
}

sockaddr_in socket_address(in_addr_t address, int port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = address;
  at.sin_port = htons(static_cast<uint16_t>(port));
  return at;
}

std::string text_of(const sockaddr_in& at) { return str(dotted(at.sin_addr.s_addr), ":", ntohs(at.sin_port)); }

std::vector<in_addr_t> resolve(const Endpoint& at) {
  std::vector<in_addr_t> addresses;
  for (const std::string& name : at.addresses) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    const int problem = getaddrinfo(name.c_str(), nullptr, &hints, &found);
    if (problem == EAI_AGAIN) continue;
    if (problem != 0)
      fail(ExitCode::usage, "MASTER_ADDR=", in_quotes(name), " cannot be resolved on this host (",
           gai_strerror(problem), "): give the name or IPv4 address of rank 0's host");
    for (const addrinfo* i = found; i != nullptr; i = i->ai_next)
      addresses.push_back(reinterpret_cast<const sockaddr_in*>(i->ai_addr)->sin_addr.s_addr);
    freeaddrinfo(found);
  }
  return addresses;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) == 0) {
    for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
      if ((i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
      addresses.push_back(dotted(reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr.s_addr));
    }
    freeifaddrs(first);
  }
  addresses.emplace_back("127.0.0.1");
  return addresses;
}

std::string random_word() {
  std::array<unsigned char, 16> bytes{};
  check(getrandom(bytes.data(), bytes.size(), 0) == std::ssize(bytes), "no random numbers");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

}  // namespace ct
