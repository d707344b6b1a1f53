// comms_logger: the counts, sizes and times of collectives.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/bind.h"
#include "train/config/config.h"

namespace ct {

/// Bits a second of a message of S bytes that took t seconds between n ranks. algorithm: S / t. bus: the load of each
/// link, which does not depend on the number of ranks: algorithm times 2 (n-1)/n for an all_reduce, (n-1)/n for the
/// others (NVIDIA's nccl-tests, doc/PERFORMANCE.md).
struct Bandwidth {
  double algorithm = 0, bus = 0;
};
Bandwidth bandwidth(const Exchange& exchange, int ranks);

/// One rank's collectives in the programs of training and evaluation, without control calls of a few bytes.
/// Thread-safe.
class CommsLog {
 public:
  CommsLog(const Config::CommsLogger& keys, int ranks) : keys_(keys), ranks_(ranks) {}

  /// The function to call for every collective; null: nothing is logged.
  std::function<void(const Exchange&)> listener();
  /// A message if nothing will be logged, or if prof_ops names an unknown collective; empty: neither.
  std::string doubt() const;
  /// The lines of calls since the last time, if each call has a line.
  std::vector<std::string> take_lines();
  /// A title and a row for each collective and size, sorted by name and size.
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
  mutable std::mutex mutex_;  // guards the following members
  std::map<Key, Calls> calls_;
  std::vector<std::string> lines_;
};

}  // namespace ct
