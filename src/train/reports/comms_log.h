// comms_logger: how often which collectives ran, how large they were, how long they took.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/bind.h"
#include "train/config/config.h"

namespace ct {

/// Bits a second, of a message of S bytes that took t seconds between n ranks: S / t, and what every cable had to carry
/// of it, which does not depend on the number of ranks: 2 (n-1)/n as much for an all_reduce, (n-1)/n for the others
/// (NVIDIA's nccl-tests, doc/PERFORMANCE.md).
struct Bandwidth {
  double algorithm = 0, bus = 0;
};
Bandwidth bandwidth(const Exchange& exchange, int ranks);

/// One rank's collectives: those that belong to a program, of training and of evaluation. Control calls of a few bytes
/// are left out. Threads may call it side by side.
class CommsLog {
 public:
  CommsLog(const Config::CommsLogger& keys, int ranks) : keys_(keys), ranks_(ranks) {}

  /// Is told of every collective; null: nothing is to be logged.
  std::function<void(const Exchange&)> listener();
  /// Why there will be nothing to tell, or what is asked for and is no collective here; empty: neither.
  std::string doubt() const;
  /// Of calls since the last time, where each has a line.
  std::vector<std::string> take_lines();
  /// A title and a row for each collective and size, by name and size.
  std::vector<std::string> table() const;

 private:
  void add(const Exchange& exchange);
  bool wanted(const Exchange& exchange) const;
  std::string label(const Exchange& exchange) const;

  struct Calls {
    int64_t count = 0;
    double seconds = 0;
  };
  struct Key {
    std::string label, name;
    int64_t bytes;
    auto operator<=>(const Key&) const = default;
  };
  Config::CommsLogger keys_;
  int ranks_;
  mutable std::mutex mutex_;  // of what follows
  std::map<Key, Calls> calls_;
  std::vector<std::string> lines_;
};

}  // namespace ct
