// What a run shows in TensorBoard (tensorboard.enabled), beside what it keeps in metrics.jsonl: event files in the
// run's tb/, or where tensorboard.output_path and job_name say.
#pragma once

#include <optional>

#include "metrics/event_file.h"
#include "train/config/config.h"
#include "train/evaluation.h"
#include "train/run/run_state.h"
#include "train/run_log.h"

namespace ct {

class EventLog {
 public:
  explicit EventLog(RunLog& log) : log_(log) {}

  /// Begins to show a run that goes on from `state`, where the configuration asks for it. Rank 0 only: elsewhere, and
  /// once files cannot be written any more, nothing is shown. `run`: the run's folder; `sample`: an image's shape.
  void open(FileSystem& files, const Path& run, const Config& config, const RunState& state, const SampleShape& sample);
  bool shows() const { return file_.has_value(); }

  /// A step: the mean loss of its images, and the rate. `epoch` counts from 1.
  void show_step(int64_t step, int64_t epoch, double loss, double lr);
  /// The end of an epoch: the mean loss of its images.
  void show_epoch(const RunState& state, double loss);
  /// An evaluation. `first` is the held-out split where there is one, otherwise test; its examples are shown where
  /// `ends_epoch` says so.
  void show_evaluation(const RunState& state, const Evaluation& first, const Evaluation& test, bool ends_epoch);
  static constexpr int64_t kExamples = 2;  // that `first` should have

 private:
  void show(int64_t x, const std::vector<SummaryValue>& values);
  void give_up(const Error& error);

  RunLog& log_;
  SampleShape sample_;
  std::optional<EventFile> file_;
};

}  // namespace ct
