// Who shows a run as it goes, beside its records in metrics.jsonl: lines of progress, TensorBoard's event files, and
// whom a caller adds (TrainOptions::listeners).
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/files.h"
#include "engine/engine.h"
#include "train/breakdown.h"
#include "train/evaluation.h"

namespace ct {

struct RunContext;

/// The steps since the last record. `timed`: seconds of them without waiting for data.
struct StepWindow {
  int64_t steps = 0;
  double timed = 0;
  std::optional<Breakdown> breakdown = {};  // wall_clock_breakdown
};

class RunListener {
 public:
  virtual ~RunListener() = default;

  /// When the clock is started.
  virtual void start() {}
  virtual void after_step() {}
  /// A step's mean loss. `samples`: images before it.
  virtual void show_loss(int64_t /*samples*/, double /*loss*/) {}
  /// What update number `step` left. `before`: the loss scale that it had.
  virtual void show_update(int64_t /*step*/, const LossScaleState& /*before*/, const Outcome& /*now*/) {}
  /// Where a line or a record is due: the latest step's mean loss.
  virtual void show_step(double /*loss*/) {}
  /// Every steps_per_print steps.
  virtual void show_window(const StepWindow& /*window*/) {}
  /// The end of an epoch: the mean loss of its images.
  virtual void show_epoch(double /*loss*/) {}
  /// An evaluation. `first` is the held-out split where there is one, otherwise test.
  virtual void show_evaluation(const Evaluation& /*first*/, const Evaluation& /*test*/, bool /*ends_epoch*/) {}
  /// How many images `first` should have as examples.
  virtual int64_t examples() const { return 0; }
  /// Do its lines take the place of the program's own of progress and of the loss scale?
  virtual bool replaces_lines() const { return false; }
};

/// What a listener may need when it is made.
struct ListenerSetup {
  const RunContext& run;
  int64_t total_steps = 0;
  FileSystem* files = nullptr;  // nullptr: this process writes none
  Path folder = {};             // the run's
  bool goes_on = false;         // from a checkpoint
};
/// Null where the configuration does not ask for it.
using MakeListener = std::function<std::unique_ptr<RunListener>(const ListenerSetup&)>;

}  // namespace ct
