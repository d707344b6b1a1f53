// What all parts of a run on one rank work with.
#pragma once

#include "train/csv_log.h"
#include "train/event_log.h"
#include "train/run/run_state.h"
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
  EventLog& events;
  CsvLog& csv;
};

}  // namespace ct
