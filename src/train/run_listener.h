// Listeners that show a run in addition to metrics.jsonl: lines of progress, TensorBoard's event files, and those that
// a caller adds (TrainOptions::listeners).
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

/// The steps since the last record. `timed`: their seconds without the time that they waited for data.
struct StepWindow {
  int64_t steps = 0;
  double timed = 0;
  std::optional<Breakdown> breakdown = {};  // wall_clock_breakdown
};

class RunListener {
 public:
  virtual ~RunListener() = default;

  /// Called when the clock starts.
  virtual void start() {}
  virtual void before_step() {}
  virtual void after_step() {}
  /// A step's mean loss. `samples`: images before it.
  virtual void show_loss(int64_t /*samples*/, double /*loss*/) {}
  /// The outcome of update number `step`. `before`: the loss scale before it.
  virtual void show_update(int64_t /*step*/, const LossScaleState& /*before*/, const Outcome& /*now*/) {}
  /// Called when a line or a record is due, with the latest step's mean loss.
  virtual void show_step(double /*loss*/) {}
  /// Every steps_per_print steps.
  virtual void show_window(const StepWindow& /*window*/) {}
  /// The end of an epoch: the mean loss of its images.
  virtual void show_epoch(double /*loss*/) {}
  /// While an evaluation runs: images so far.
  virtual void show_evaluating(const std::string& /*split*/, int64_t /*images*/, int64_t /*of*/) {}
  /// An evaluation. `first` is the held-out split if there is one, otherwise test.
  virtual void show_evaluation(const Evaluation& /*first*/, const Evaluation& /*test*/, bool /*ends_epoch*/) {}
  /// Called before a checkpoint and at the end: what was shown must be on the disk, because a run that goes on from
  /// there does not show it again.
  virtual void sync() {}
  /// The number of images that `first` should have as examples.
  virtual int64_t examples() const { return 0; }
  /// Do its lines replace the program's lines of epochs, steps and the loss scale?
  virtual bool replaces_lines() const { return false; }
};

/// The arguments for the construction of a listener.
struct ListenerSetup {
  const RunContext& run;
  int64_t total_steps = 0;
  FileSystem* files = nullptr;  // nullptr: this process writes none
  Path folder = {};             // the run's
  bool goes_on = false;         // from a checkpoint
};
/// Null: the configuration does not enable the listener.
using MakeListener = std::function<std::unique_ptr<RunListener>(const ListenerSetup&)>;

}  // namespace ct
