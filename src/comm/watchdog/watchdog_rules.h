// When is a rank lost? The watchdog's rules, as a state machine that is fed with times and signs of life.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/watchdog/heartbeat.h"
#include "comm/watchdog/supervision.h"

namespace ct {

/// A rank's signs of life at one moment: its Heartbeat, and what is known of it from elsewhere. Plain data.
struct Signs {
  uint64_t beats = 0, progress = 0, collectives = 0;
  Phase phase = Phase::start;
  uint8_t waiting = 0, ended = 0;
  uint8_t gone = 0;  // 1: its process is dead, or its connection is
};
Signs signs_of(const Heartbeat& heartbeat);

/// What is wrong with a rank, and for how long it has been, in seconds.
struct Finding {
  enum class What : uint8_t { lost, silent, stuck };
  int rank = 0;
  What what = What::lost;
  double seconds = 0;
};

/// Where a rank runs, for people.
struct RankPlace {
  int64_t pid = 0;
  std::string host;
};

/// "rank 2 (pid 71, host a) was lost in phase step, collective 57: start the same command again; ..."
std::string text_of(const Finding& finding, const Signs& signs, const RankPlace& place);

class WatchdogRules {
 public:
  /// All deadlines begin at `now`, in seconds of any clock that only goes forward.
  WatchdogRules(int ranks, Supervision deadlines, double now);

  /// Looks for lost ranks; to be called several times a second. A rank that has ended is ignored. The others are
  ///   lost    as soon as they are gone,
  ///   silent  when their beats stand still for heartbeat_s,
  ///   stuck   when nobody's progress or collectives move for timeout_s: the culprit is a rank that does not wait for
  ///           others, else the one that is behind.
  /// A long time between two calls means that this watchdog itself did not run (the job was suspended and continued):
  /// nothing can be said of others then, and all deadlines begin anew.
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
