#include "train/csv_log.h"

#include "train/breakdown.h"
#include "train/run/run_files.h"

namespace ct {
namespace {

constexpr std::string_view kLoss = "Train/Samples/train_loss", kLr = "Train/Samples/lr",
                           kLossScale = "Train/Samples/loss_scale", kTime = "Train/Samples/elapsed_time_ms_";

}  // namespace

void CsvLog::open(FileSystem& files, const Path& run, const Config& config, const RunState& state, int64_t run_steps,
                  Begins begins) {
  const auto& [enabled, output, job] = config.csv_monitor;
  if (!enabled) return;
  Path folder = output.empty() ? run / kCsvFolder : Path(output);
  if (!job.empty()) folder /= job;
  std::optional<CsvSeries::Keep> keep;
  if (begins == Begins::again)
    keep = [samples = state.samples](std::string_view tag, int64_t x) {
      return tag == kLoss ? x < samples : x <= samples;
    };
  rates_.emplace(config, run_steps);
  try {
    series_.emplace(files, folder, std::move(keep));
  } catch (const Error& e) {
    give_up(e);
  }
}

void CsvLog::show_loss(int64_t samples, double loss) { show(kLoss, samples, loss); }

void CsvLog::show_update(int64_t samples, const Outcome& outcome, bool has_loss_scale) {
  if (!shows()) return;
  show(kLr, samples, rates_->lr(outcome.scalars.applied).front());
  if (has_loss_scale) show(kLossScale, samples, outcome.loss_scale.scale);
}

void CsvLog::show_times(int64_t samples, const PhaseSeconds& milliseconds) {
  const DeepSpeedTimes times(milliseconds);
  for (const auto& [name, value] : {std::pair{"forward", times.forward},
                                    {"backward", times.backward()},
                                    {"backward_inner", times.backward_inner},
                                    {"backward_allreduce", times.backward_allreduce},
                                    {"step", times.step()}})
    show(str(kTime, name), samples, value);
}

void CsvLog::show(std::string_view tag, int64_t x, double value) {
  if (!shows()) return;
  try {
    series_->write(tag, x, value);
  } catch (const Error& e) {
    give_up(e);
  }
}

/// Curves are not worth a run.
void CsvLog::give_up(const Error& error) {
  if (error.code() != ExitCode::io) throw error;
  series_.reset();
  log_.warn(str("csv_monitor writes nothing more, training goes on: ", error.what()));
}

}  // namespace ct
