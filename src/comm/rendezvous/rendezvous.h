// Ranks find each other over TCP (IPv4): rank 0 listens at an endpoint, the others connect to it.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/bootstrap.h"
#include "comm/rendezvous/connection.h"
#include "comm/rendezvous/endpoint.h"

namespace ct {

struct RendezvousOptions {
  double timeout_s = 600;  // that a rank may be late
  /// Receives rank 0's lines for people, of connections that it rejects and ranks that leave.
  std::function<void(const std::string&)> notice = {};
  /// Asked several times a second: true ends the wait with Error(stopped).
  std::function<bool()> give_up = [] { return false; };

  std::chrono::steady_clock::time_point deadline() const;
  /// Throws Error(stopped) where the wait is to end.
  void throw_if_stopped() const;
};

/// An error that rank 0 has sent to this rank: rank 0 prints it, and one rank of every other host.
class ToldError : public Error {
 public:
  using Error::Error;
};

/// Rank 0's connections to all other ranks, or another rank's to rank 0, each at the place of its rank.
struct Star {
  std::vector<Connection> to;
  std::vector<std::string> names;  // "rank 2 (pid 71, host b)"; empty: unknown
};

/// Rank 0's socket.
class Listener {
 public:
  /// At an endpoint that all ranks know. Throws Error(usage) where its address is not one of this host, or its ports
  /// are in use.
  Listener(Endpoint at, int size);
  /// At a free port of all addresses of this host, with a word of its own; the ranks are to learn of endpoint().
  /// Throws Error(peer).
  explicit Listener(int size);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const Endpoint& endpoint() const { return at_; }
  /// Returns when all other ranks have connected: those that know the endpoint's word, with the same version of this
  /// program and the same WORLD_SIZE. All others are rejected. A rank of the same job that cannot be right (there
  /// twice, another version) ends the rendezvous of all ranks with Error(usage). Throws Error(peer) naming ranks that
  /// did not come in time.
  Star accept_ranks(const RendezvousOptions& options) const;

 private:
  Endpoint at_;
  int size_, fd_;
};

/// Returns when all ranks have connected. Throws what accept_ranks() throws on rank 0, as ToldError; Error(usage) where
/// another job listens there; Error(peer) where nobody listens in time, or rank 0 is lost.
Star connect_to_rank_0(const Endpoint& at, int rank, int size, const RendezvousOptions& options);

/// A star of connections between ranks that know each other. Throws the same Error(peer) on all of them.
Star make_star(Bootstrap& ranks, double timeout_s);

}  // namespace ct
