// The scalars of an update in the backend's memory. The optimizer reads them there, so the host need not wait for the
// decision to skip a step. A skipped step changes no counts but those of skipped steps. Kernels include this too.
#pragma once

#include <cstdint>

#include "optim/rates.h"

namespace ct {

inline constexpr int64_t kScheduleWindow = 4096;  // rows uploaded at a time

struct StepScalars {
  int64_t applied = 0;       // optimizer steps applied so far
  int64_t skipped = 0;       // steps skipped for a non-finite gradient so far
  int64_t bad_streak = 0;    // skipped in a row
  int64_t window_begin = 0;  // the applied count that schedule row 0 belongs to
  double norm = 0;           // of the step's mean gradient, before clipping
  double grad_scale = 0;     // clip factor over the number of micro-batches and over the loss scale
  double lr = 0;
  std::array<double, kCoefficients> coefficients = {};
  int64_t skip = 0;  // 1: this step updates nothing
};

}  // namespace ct
