// The content of a checkpoint's state.json: a run's state in addition to weights and moments, and its provenance.
#pragma once

#include <cstdint>
#include <string>

#include "base/files.h"
#include "checkpoint/store.h"
#include "graph/loss_scale.h"
#include "metrics/metrics_log.h"
#include "plan/step_scalars.h"
#include "train/config/config.h"

namespace ct {

struct RunState {
  int64_t step = 0;   // optimizer steps done, including skipped ones
  int64_t epoch = 0;  // the next step is `batch` of this epoch
  int64_t batch = 0;
  int64_t samples = 0;  // of all steps done, on all ranks
  StepScalars scalars;
  LossScaleState loss_scale;  // of fp16

  // The tutorial's running loss: sum over images since the last line of this epoch.
  double running_loss = 0;
  int64_t running_images = 0;
  // The same since the epoch's beginning.
  double epoch_loss = 0;
  int64_t epoch_images = 0;
  double ema_loss = 0;  // next_ema_loss() of the epoch's steps

  // The best evaluation so far, by train.best; step -1: none yet.
  int64_t best_step = -1;
  double best_value = 0;
  // Early stopping: the best value of its metric and the evaluations since.
  double patience_value = 0;
  int64_t patience_used = -1;  // -1: nothing evaluated yet

  int64_t replaced = 0;         // damaged samples that were replaced, on all ranks
  int64_t optimizer_begun = 0;  // the applied steps before the optimizer began anew (train.unfreeze_at)
};

/// The provenance of a checkpoint.
struct Provenance {
  std::string config;  // YAML
  int64_t ranks = 1;
  std::string dataset;         // name
  uint32_t data_crc = 0;       // of the training images
  uint32_t test_data_crc = 0;  // of the test images
  std::string device;          // Backend::description
  std::string plans = {};      // Backend::plans
};

Json to_json(const RunState& state);
Json to_json(const RunState& state, const Provenance& provenance);
/// Throws Error(checkpoint), with the path of `file`, for a state with a missing field, a wrong type, or numbers that
/// no run has.
RunState run_state_from(const Json& json, const Path& file);
/// Throws Error(checkpoint) for a state with a missing field.
Provenance provenance_from(const Json& state, const Path& file);
/// The configuration of the run that wrote a checkpoint. Throws Error(checkpoint).
Config saved_config(const Checkpoint& checkpoint);
/// Throws Error(checkpoint), with the path of the state, unless a run could have written the checkpoint's state. The
/// epoch and its batch are not compared with the step, because a run may have had other batch sizes before.
void require_state(const Checkpoint& checkpoint);

}  // namespace ct
