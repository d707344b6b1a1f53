// The times of the parts of a step (wall_clock_breakdown).
#pragma once

#include <string>

#include "engine/phase_clock.h"
#include "metrics/metrics_log.h"

namespace ct {

/// Means of some steps, milliseconds.
struct Breakdown {
  PhaseSeconds phases{};
  double data = 0;  // waiting for micro-batches
  double step = 0;  // wall-clock time of the whole step

  double communication() const { return phases[StepPhase::exchange] + phases[StepPhase::update_exchange]; }
};

/// "time (ms) | forward: 1.20 | backward: ... | communication: ... | update: ... | data: ... | step: 4.56"
std::string to_line(const Breakdown& breakdown);
/// {"forward": 1.2, ...}, for a record.
Json to_json(const Breakdown& breakdown);

}  // namespace ct
