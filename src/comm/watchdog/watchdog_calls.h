// How the watchdogs' connections come about: rank 0 listens, the others call it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/watchdog/watchdog_link.h"

namespace ct {

using Token = std::array<std::byte, 16>;

/// Where rank 0 listens, and how the two ends recognise each other: the same private address may exist on several hosts
/// with somebody else behind it, and anybody may call. Plain data, for Communicator::broadcast.
struct Invitation {
  std::array<uint32_t, 32> addresses{};  // IPv4, in network byte order; 0: none
  uint16_t port = 0;                     // in network byte order; 0: rank 0 cannot listen
  Token caller{}, host{};
};
/// "10.0.0.1, 127.0.0.1, TCP port 4711"
std::string text_of(const Invitation& invitation);

/// What a caller says first; it is answered with the host's token.
struct Hello {
  Token caller{};
  int32_t rank = -1;
};

using Deadline = std::chrono::steady_clock::time_point;

/// Listens on all addresses of this host.
class Reception {
 public:
  explicit Reception(int peers);
  ~Reception();
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;
  const Invitation& invitation() const { return invitation_; }
  /// Links to ranks 1 to size-1 at their places; those that did not call in time are not open. Strangers are sent away.
  std::vector<WatchdogLink> receive(int size, Deadline end) const;

 private:
  Invitation invitation_;
  int fd_;
};

/// Tries every address until one answers as it should; not open: none did in time.
WatchdogLink call(const Invitation& invitation, int rank, Deadline end);

}  // namespace ct
