// Connects ranks over TCP (IPv4): rank 0 listens at an endpoint, and the others connect to it.
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
  double timeout_s = 600;  // for ranks that start late
  /// Receives rank 0's messages about rejected connections and ranks that disconnect.
  std::function<void(const std::string&)> notice = {};
  /// Called several times a second; true ends the wait with Error(stopped).
  std::function<bool()> give_up = [] { return false; };

  std::chrono::steady_clock::time_point deadline() const;
  /// Throws Error(stopped) if give_up() returns true.
  void throw_if_stopped() const;
};

/// An error that rank 0 has sent to this rank. Rank 0 and one rank of every other host print it.
class RankZeroError : public Error {
 public:
  using Error::Error;
};

/// Rank 0's connections to all other ranks, indexed by rank, or another rank's connection to rank 0.
struct Star {
  std::vector<Connection> to;
  std::vector<std::string> names;  // "rank 2 (pid 71, host b)"; empty: unknown
};

/// Rank 0's listening socket.
class Listener {
 public:
  /// Listens at an endpoint that all ranks know. Throws Error(usage) if its address does not belong to this host, or if
  /// its ports are in use.
  Listener(Endpoint at, int size);
  /// Listens at a free port of all addresses of this host, with a new word; the caller must send endpoint() to the
  /// ranks. Throws Error(peer).
  explicit Listener(int size);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const Endpoint& endpoint() const { return at_; }
  /// Returns when all other ranks have connected, with the endpoint's word, the same version of this program and the
  /// same WORLD_SIZE. All other connections are rejected. An invalid rank of the same job (a duplicate, or another
  /// version) ends the rendezvous of all ranks with Error(usage). Throws Error(peer) with the ranks that did not
  /// connect in time.
  Star accept_ranks(const RendezvousOptions& options) const;

 private:
  Endpoint at_;
  int size_, fd_;
};

/// Returns when all ranks have connected. Throws the error of accept_ranks() on rank 0 as RankZeroError; Error(usage)
/// if another job listens at the endpoint; Error(peer) if no process listens in time, or if rank 0 is lost.
Star connect_to_rank_0(const Endpoint& at, int rank, int size, const RendezvousOptions& options);

/// Connects ranks that already share a Bootstrap in a star. Throws the same Error(peer) on all of them.
Star make_star(Bootstrap& ranks, double timeout_s);

}  // namespace ct
