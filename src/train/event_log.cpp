#include "train/event_log.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/paths.h"
#include "train/config/print.h"
#include "train/run/run_files.h"

namespace ct {
namespace {

// Tags, by what their x counts. Optimizer steps:
constexpr const char *kLossTag = "train/loss", *kLrTag = "train/lr", *kEpochTag = "train/epoch",
                     *kAccuracyTag = "eval/acc", *kConfigurationTag = "configuration";
// Images of all ranks together:
constexpr const char *kEpochLossTag = "AvgTrainLoss", *kValAccuracyTag = "ValAcc", *kValLossTag = "AvgValLoss";
// Epochs, from 0:
constexpr const char *kInputTag = "input", *kLabelTag = "label", *kOutputTag = "output";

/// The number of the epoch that the latest step belongs to, from 0.
int64_t epoch_of(const RunState& state) { return state.epoch - (state.batch == 0); }

/// Was it shown before the checkpoint of `state`? Evaluations come after their step's checkpoint and are repeated.
bool shown_before(const RunState& state, std::string_view tag, int64_t x) {
  if (tag == kLossTag) return x <= state.step;
  if (tag == kEpochLossTag) return x <= state.samples;
  if (tag == kValAccuracyTag) return x < state.samples;
  if (tag == kInputTag || tag.starts_with(kLabelTag)) return x < epoch_of(state);
  return x < state.step;
}

/// Examples side by side, as a PNG has its pixels.
SummaryValue picture(const std::vector<Evaluation::Example>& examples, const SampleShape& shape) {
  const auto [channels, height, width] = shape;
  std::vector<uint8_t> pixels;
  for (int64_t row = 0; row < height; ++row)
    for (const Evaluation::Example& example : examples)
      for (int64_t column = 0; column < width; ++column)
        for (int64_t channel = 0; channel < channels; ++channel)
          pixels.push_back(example.pixels[static_cast<size_t>((channel * height + row) * width + column)]);
  return image_summary(kInputTag, pixels, width * static_cast<int64_t>(examples.size()), channels);
}

}  // namespace

EventLog::EventLog(const ListenerSetup& setup) : run_(setup.run) {
  const auto& [enabled, output, job] = run_.config.tensorboard;
  Path folder = output.empty() ? setup.folder / kEventFolder : Path(output);
  if (!job.empty()) folder /= job;
  try {
    file_.emplace(*setup.files, folder, event_writer(output.empty() ? "" : run_.config.output), run_.state.step,
                  [&](std::string_view tag, int64_t x) { return shown_before(run_.state, tag, x); });
  } catch (const Error& e) {
    give_up(e);
  }
  show(run_.state.step, {text_summary(kConfigurationTag, "```yaml\n" + to_yaml(run_.config) + "```\n")});
}

std::unique_ptr<RunListener> listen_for_tensorboard(const ListenerSetup& setup) {
  if (!setup.run.config.tensorboard.enabled || setup.files == nullptr) return nullptr;
  return std::make_unique<EventLog>(setup);
}

void EventLog::show_step(double loss) {
  if (!file_) return;
  const RunState& state = run_.state;
  show(state.step, {scalar_summary(kLossTag, loss), scalar_summary(kLrTag, run_.session.engine().latest().scalars.lr),
                    scalar_summary(kEpochTag, static_cast<double>(state.epoch + 1))});
}

void EventLog::show_epoch(double loss) { show(run_.state.samples, {scalar_summary(kEpochLossTag, loss)}); }

void EventLog::show_evaluation(const Evaluation& first, const Evaluation& test, bool ends_epoch) {
  const RunState& state = run_.state;
  show(state.step, {scalar_summary(kAccuracyTag, test.accuracy())});
  show(state.samples,
       {scalar_summary(kValAccuracyTag, 100 * first.accuracy()), scalar_summary(kValLossTag, first.loss)});
  if (!ends_epoch || first.examples.empty()) return;
  std::vector<SummaryValue> values;
  const SampleShape& shape = run_.session.data().train->shape();
  if (shape.channels == 1 || shape.channels == 3) values.push_back(picture(first.examples, shape));
  for (size_t i = 0; i < first.examples.size(); ++i)
    values.push_back(scalar_summary(str(kLabelTag, i), first.examples[i].label));
  for (size_t i = 0; i < first.examples.size(); ++i)
    if (const std::vector<float>& logits = first.examples[i].logits;
        std::ranges::all_of(logits, [](float v) { return std::isfinite(v); }))
      values.push_back(histogram_summary(str(kOutputTag, i), logits));
  show(epoch_of(state), values);
}

void EventLog::sync() {
  attempt([this] { file_->sync(); });
}

void EventLog::show(int64_t x, const std::vector<SummaryValue>& values) {
  attempt([&] { file_->write(x, values); });
}

template <class Work>
void EventLog::attempt(const Work& work) {
  if (!file_) return;
  try {
    work();
  } catch (const Error& e) {
    give_up(e);
  }
}

/// Training does not end for curves.
void EventLog::give_up(const Error& error) {
  if (error.code() != ExitCode::io) throw error;
  file_.reset();
  run_.log.warn(str("no more events are written for TensorBoard, training continues: ", error.what()));
}

}  // namespace ct
