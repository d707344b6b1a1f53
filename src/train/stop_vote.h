// Agreement to stop on request. Ranks must stop after the same step, so a request counts only once all have heard of
// it: they compare notes every so often, at steps that rank 0's clock chose at the vote before.
#pragma once

#include <algorithm>

#include "train/agree.h"
#include "train/signals.h"

namespace ct {

class StopVote {
 public:
  StopVote(Communicator& comm, int64_t step) : comm_(comm), next_(step) {}

  bool due(int64_t step) const { return comm_.size() == 1 || step >= next_; }
  /// Has anybody been asked to stop? Collective, at the steps at which it is due.
  bool take(int64_t step, double seconds_a_step) {
    const bool asked = StopSignals::requested() != 0;
    if (comm_.size() == 1) return asked;
    const double steps = std::clamp(kSeconds / std::max(seconds_a_step, 1e-9), 1.0, 10000.0);
    next_ = step + broadcast_value(comm_, static_cast<int64_t>(steps));
    return any_rank(comm_, asked);
  }

 private:
  static constexpr double kSeconds = 0.02;  // that a request may wait, if a step takes no longer

  Communicator& comm_;
  int64_t next_;
};

}  // namespace ct
