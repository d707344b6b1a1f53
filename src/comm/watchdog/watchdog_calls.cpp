#include "comm/watchdog/watchdog_calls.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <span>

#include "base/error.h"

namespace ct {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// IPv4 addresses under which others may reach this host; loopback last, for ranks on this host.
std::array<uint32_t, 32> own_addresses() {
  std::array<uint32_t, 32> addresses{};
  size_t count = 0;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) == 0) {
    for (const ifaddrs* i = first; i != nullptr && count + 1 < addresses.size(); i = i->ifa_next) {
      if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
      if ((i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
      addresses[count++] = reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr.s_addr;
    }
    freeifaddrs(first);
  }
  addresses[count] = htonl(INADDR_LOOPBACK);
  return addresses;
}

/// Waits for one event on a link.
void await(const WatchdogLink& link, short events, std::chrono::milliseconds time) {
  pollfd event{link.fd(), events, 0};
  poll(&event, 1, static_cast<int>(time.count()));
}

/// Reads until the message is whole, the other end is gone or the time is over: is it whole?
bool read_whole(WatchdogLink& link, std::span<std::byte> message, std::chrono::milliseconds time) {
  for (const auto end = Clock::now() + time; !link.next(message);) {
    if (!link.open() || Clock::now() >= end) return false;
    await(link, POLLIN, 50ms);
    link.receive();
  }
  return true;
}

WatchdogLink call_address(uint32_t address, const Invitation& invitation, int rank) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return {};
  WatchdogLink link(fd);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = address;
  to.sin_port = invitation.port;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS) return {};
  await(link, POLLOUT, 1s);
  int problem = 0;
  socklen_t length = sizeof problem;
  pollfd ready{fd, POLLOUT, 0};
  if (poll(&ready, 1, 0) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length) != 0 || problem != 0)
    return {};
  const Hello hello{invitation.caller, rank};
  link.send(std::as_bytes(std::span(&hello, 1)));
  Token token{};
  return read_whole(link, token, 2s) && token == invitation.host ? std::move(link) : WatchdogLink();
}

}  // namespace

std::string text_of(const Invitation& invitation) {
  std::string text;
  for (const uint32_t address : invitation.addresses) {
    std::array<char, INET_ADDRSTRLEN> name{};
    if (address != 0 && inet_ntop(AF_INET, &address, name.data(), name.size()) != nullptr)
      text += str(name.data(), ", ");
  }
  return text + str("TCP port ", ntohs(invitation.port));
}

Reception::Reception(int peers) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  socklen_t length = sizeof at;
  auto* address = reinterpret_cast<sockaddr*>(&at);
  if (fd_ < 0 || bind(fd_, address, length) != 0 || listen(fd_, peers + 64) != 0 ||
      getsockname(fd_, address, &length) != 0)
    return;
  invitation_.port = at.sin_port;
  invitation_.addresses = own_addresses();
  for (Token* token : {&invitation_.caller, &invitation_.host}) {
    check(getrandom(token, sizeof *token, 0) == sizeof *token, "no random numbers");
  }
}

Reception::~Reception() {
  if (fd_ >= 0) close(fd_);
}

std::vector<WatchdogLink> Reception::receive(int size, Deadline end) const {
  std::vector<WatchdogLink> links(static_cast<size_t>(size));
  struct Caller {
    WatchdogLink link;
    Deadline until;
  };
  std::vector<Caller> callers;  // who has not said hello yet: anybody
  const auto complete = [&] { return std::all_of(links.begin() + 1, links.end(), std::mem_fn(&WatchdogLink::open)); };
  while (invitation_.port != 0 && !complete() && Clock::now() < end) {
    std::vector<pollfd> events{{fd_, POLLIN, 0}};
    for (const Caller& caller : callers) events.push_back({caller.link.fd(), POLLIN, 0});
    poll(events.data(), events.size(), 100);
    for (int fd; (fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
      callers.push_back({WatchdogLink(fd), Clock::now() + 5s});
      if (callers.size() > static_cast<size_t>(size) + 64) callers.erase(callers.begin());
    }
    for (Caller& caller : callers) {
      caller.link.receive();
      Hello hello;
      if (caller.link.next(std::as_writable_bytes(std::span(&hello, 1)))) {
        if (hello.caller == invitation_.caller && hello.rank >= 1 && hello.rank < size) {
          caller.link.send(invitation_.host);
          std::swap(links[static_cast<size_t>(hello.rank)], caller.link);  // a second call: the first took too long
        }
        caller.link.close();
      } else if (Clock::now() >= caller.until) {
        caller.link.close();
      }
    }
    std::erase_if(callers, [](const Caller& caller) { return !caller.link.open(); });
  }
  return links;
}

WatchdogLink call(const Invitation& invitation, int rank, Deadline end) {
  while (invitation.port != 0 && Clock::now() < end) {
    for (const uint32_t address : invitation.addresses) {
      if (address == 0) break;
      if (WatchdogLink link = call_address(address, invitation, rank); link.open()) return link;
    }
    poll(nullptr, 0, 100);
  }
  return {};
}

}  // namespace ct
