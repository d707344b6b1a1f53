// The objects that all parts of a run on one rank use.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "train/run/run_state.h"
#include "train/run_listener.h"
#include "train/run_log.h"
#include "train/session.h"
#include "train/training_clock.h"

namespace ct {

struct RunContext {
  const Config& config;
  TrainingSession& session;
  RunState& state;
  TrainingClock& clock;
  RunLog& log;
  const std::vector<std::unique_ptr<RunListener>>& listeners;

  /// Returns once records and curves are on the disk. Throws Error(io) for records only.
  void sync() const {
    for (const auto& listener : listeners) listener->sync();
    log.sync();  // last: after the record of its end a run shows nothing again
  }
};

}  // namespace ct
