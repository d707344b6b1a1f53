#include "deepspeed/csv_series.h"
#include "deepspeed/listeners.h"
#include "deepspeed/log_lines.h"
#include "train/group_rates.h"
#include "train/run/run_files.h"
#include "train/run_context.h"
#include "train/setup.h"

namespace ct {
namespace {

constexpr std::string_view kLoss = "Train/Samples/train_loss", kLr = "Train/Samples/lr",
                           kLossScale = "Train/Samples/loss_scale", kTime = "Train/Samples/elapsed_time_ms_";

class CsvLog : public RunListener {
 public:
  explicit CsvLog(const ListenerSetup& setup)
      : run_(setup.run),
        rates_(run_.config, {setup.total_steps}),
        has_loss_scale_(update_rule(run_.config).loss_scale.has_value()) {
    const auto& [enabled, output, job] = run_.config.csv_monitor;
    Path folder = output.empty() ? setup.folder / kCsvFolder : Path(output);
    if (!job.empty()) folder /= job;
    std::optional<CsvSeries::Keep> keep;
    if (setup.goes_on)
      keep = [samples = run_.state.samples](std::string_view tag, int64_t x) {
        return tag == kLoss ? x < samples : x <= samples;
      };
    try {
      series_.emplace(*setup.files, folder, std::move(keep));
    } catch (const Error& e) {
      give_up(e);
    }
  }

  void show_loss(int64_t samples, double loss) override { show(kLoss, samples, loss); }

  /// The rate that comes next.
  void show_update(int64_t step, const LossScaleState&, const Outcome& now) override {
    const int64_t samples = run_.state.samples - (run_.state.step - step) * run_.session.batch().train;
    show(kLr, samples, rates_.lr(now.scalars.applied).front());
    if (has_loss_scale_) show(kLossScale, samples, now.loss_scale.scale);
  }

  void sync() override {
    attempt([this] { series_->sync(); });
  }

  void show_window(const StepWindow& window) override {
    if (!window.breakdown) return;
    const DeepSpeedTimes times(window.breakdown->phases);
    for (const auto& [name, value] : {std::pair{"forward", times.forward},
                                      {"backward", times.backward()},
                                      {"backward_inner", times.backward_inner},
                                      {"backward_allreduce", times.backward_allreduce},
                                      {"step", times.step()}})
      show(str(kTime, name), run_.state.samples, value);
  }

 private:
  void show(std::string_view tag, int64_t x, double value) {
    attempt([&] { series_->write(tag, x, value); });
  }

  template <class Work>
  void attempt(const Work& work) {
    if (!series_) return;
    try {
      work();
    } catch (const Error& e) {
      give_up(e);
    }
  }

  /// Training does not end for curves.
  void give_up(const Error& error) {
    if (error.code() != ExitCode::io) throw error;
    series_.reset();
    run_.log.warn(str("csv_monitor stops writing, training continues: ", error.what()));
  }

  const RunContext& run_;
  GroupRates rates_;
  bool has_loss_scale_;
  std::optional<CsvSeries> series_;
};

}  // namespace

std::unique_ptr<RunListener> listen_for_csv(const ListenerSetup& setup) {
  if (!setup.run.config.csv_monitor.enabled || setup.files == nullptr) return nullptr;
  return std::make_unique<CsvLog>(setup);
}

}  // namespace ct
