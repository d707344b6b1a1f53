// The scalars of an update as they lie in device memory, where the optimizer reads them, so that a recorded step can be
// replayed and a skipped one advances nothing without the host knowing.
//
// StepScalars, ScheduleRow and the first members of LossScaleState have the layout of ct::StepScalars
// (plan/step_scalars.h), ct::ScheduleRow (optim/rates.h) and ct::LossScaleState (graph/loss_scale.h), which this folder
// does not see: tests/kernels/step_control_test.cpp compares them.
#pragma once

#include <cstdint>

namespace ct::kernels {

/// What the host computes in double for one applied step. The optimizer says what its coefficients are (optimizer.h).
constexpr int kCoefficients = 4;
struct ScheduleRow {
  double lr = 0;
  double coefficients[kCoefficients] = {};
};

struct StepScalars {
  int64_t applied = 0;       // optimizer steps applied so far
  int64_t skipped = 0;       // steps skipped for a non-finite gradient so far
  int64_t bad_streak = 0;    // skipped in a row
  int64_t window_begin = 0;  // the applied count that schedule row 0 belongs to
  double norm = 0;           // of the step's mean gradient, before clipping
  double grad_scale = 0;     // clip factor over the number of micro-batches and over the loss scale
  double lr = 0;
  double coefficients[kCoefficients] = {};
  int64_t skip = 0;  // this step: 1 when nothing is to be updated
};

/// The loss scale of fp16 training.
struct LossScaleState {
  double scale = 65536;
  int64_t step = 0;            // updates so far
  int64_t last_overflow = -1;  // the step of the latest
  int64_t hysteresis_left = 2;
  int64_t diverged = 0;  // overflows at the minimum so far: after the first the run cannot go on
};

struct LossScaleOptions {
  bool dynamic = true;  // false: the scale stays as it is
  double min = 1;
  int64_t window = 1000;                // clean steps that double the scale; at least 1
  int64_t hysteresis = 2;               // overflows it takes to lower the scale; at least 1
  bool consecutive_hysteresis = false;  // a clean step forgives the overflows before it
  bool without_hysteresis = false;      // every overflow halves the scale, and none is an end
  bool unscale_by_new = false;          // gradients are divided by the scale after its change
};

}  // namespace ct::kernels
