// The watchdog's rules for lost ranks, as a state machine whose input is times and signs of life.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/watchdog/heartbeat.h"
#include "comm/watchdog/supervision.h"

namespace ct {

/// A rank's signs of life at one moment: its Heartbeat, and whether its process is gone. Plain data.
struct Signs {
  uint64_t beats = 0, progress = 0, collectives = 0;
  Phase phase = Phase::start;
  uint8_t waiting = 0, ended = 0;
  uint8_t gone = 0;  // 1: its process is dead, or its connection is closed
};
Signs signs_of(const Heartbeat& heartbeat);

/// The fault of a rank, and its duration in seconds.
struct Finding {
  enum class What : uint8_t { lost, silent, stuck };
  int rank = 0;
  What what = What::lost;
  double seconds = 0;
};

/// The process of a rank, for messages.
struct RankPlace {
  int64_t pid = 0;
  std::string host;
};

/// "rank 2 (pid 71, host a) was lost in phase step, collective 57: start the same command again; ..."
std::string text_of(const Finding& finding, const Signs& signs, const RankPlace& place);

class WatchdogRules {
 public:
  /// All deadlines begin at `now`, in seconds of any monotonic clock.
  WatchdogRules(int ranks, Supervision deadlines, double now);

  /// Returns a lost rank, if there is one; must be called several times a second. Ranks that have ended are ignored.
  /// The others are
  ///   lost    as soon as they are gone,
  ///   silent  when their beats do not change for heartbeat_s,
  ///   stuck   when no rank's progress or collectives change for timeout_s: the culprit is a rank that does not wait
  ///           for others, otherwise the one with the fewest collectives.
  /// A long time between two calls means that this watchdog itself did not run (the job was suspended and continued);
  /// all deadlines then restart.
  std::optional<Finding> look(double now, std::span<const Signs> ranks);

 private:
  struct Heard {
    uint64_t beats = 0, moves = 0;
    double at;
  };
  std::vector<Heard> heard_;
  Supervision deadlines_;
  double looked_at_, moved_at_;
};

}  // namespace ct
