// The records of sweep.jsonl, a JSON object a line: `sweep`, its plan; `begin` of a run; `run`, its end.
#pragma once

#include <string>
#include <vector>

#include "base/paths.h"
#include "cli/sweep/results.h"
#include "metrics/metrics_log.h"

namespace ct {

/// For reports, also while most runs have not begun: the names of all runs, and the keys that they vary. `initial`: the
/// options of initial weights, printable; empty: none.
Json sweep_record(const std::vector<SweepOutcome>& runs, const std::string& initial);
/// `time`: seconds since 1970
Json begin_record(const SweepOutcome& run, double time);
/// `code`: the exit code of its process; `seconds`: how long this took
Json end_record(const SweepOutcome& run, int code, double seconds);

/// What a record says; empty or 0 where it says nothing, or nonsense.
struct SweepRecord {
  std::string event, run, initial, ended, config_crc32c;
  double time = 0, seconds = 0, code = 0;
  Json whole;
};
/// Those of a file, without lines that are none. Error(io) if it cannot be read.
std::vector<SweepRecord> read_sweep_records(const Path& file);

}  // namespace ct
