// What a run shows in DeepSpeed's CSV files (csv_monitor.enabled): in the run's csv/, or where csv_monitor.output_path
// and job_name say. Every step has its row, with DeepSpeed's tags, values and x: images of all ranks.
#pragma once

#include <optional>

#include "base/error.h"
#include "engine/engine.h"
#include "metrics/csv_series.h"
#include "train/group_rates.h"
#include "train/run/run_state.h"
#include "train/run_log.h"

namespace ct {

class CsvLog {
 public:
  explicit CsvLog(RunLog& log) : log_(log) {}

  enum class Begins : bool { anew, again };
  /// Begins to show a run of `run_steps` updates that goes on from `state`, where the configuration asks for it. Rank 0
  /// only: elsewhere, and once files cannot be written any more, nothing is shown. `run`: the run's folder.
  void open(FileSystem& files, const Path& run, const Config& config, const RunState& state, int64_t run_steps,
            Begins begins);
  bool shows() const { return series_.has_value(); }

  /// A step's mean loss. `samples`: images before it.
  void show_loss(int64_t samples, double loss);
  /// What an update left: the rate that comes next, and the loss scale where there is one. `samples`: images with it.
  void show_update(int64_t samples, const Outcome& outcome, bool has_loss_scale);
  /// What a step's time went to, milliseconds.
  void show_times(int64_t samples, const PhaseSeconds& milliseconds);

 private:
  void show(std::string_view tag, int64_t x, double value);
  void give_up(const Error& error);

  RunLog& log_;
  std::optional<CsvSeries> series_;
  std::optional<GroupRates> rates_;
};

}  // namespace ct
