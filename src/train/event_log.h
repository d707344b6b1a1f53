// Writes TensorBoard's event files (tensorboard.enabled) in the run's tb/, or in the folder of tensorboard.output_path
// and job_name.
#pragma once

#include <optional>

#include "metrics/event_file.h"
#include "train/run_context.h"

namespace ct {

class EventLog : public RunListener {
 public:
  explicit EventLog(const ListenerSetup& setup);

  void show_step(double loss) override;
  void show_epoch(double loss) override;
  /// Examples are shown if `ends_epoch`.
  void show_evaluation(const Evaluation& first, const Evaluation& test, bool ends_epoch) override;
  void sync() override;
  int64_t examples() const override { return file_ ? 2 : 0; }

 private:
  void show(int64_t x, const std::vector<SummaryValue>& values);
  template <class Work>
  void attempt(const Work& work);
  void give_up(const Error& error);

  const RunContext& run_;
  std::optional<EventFile> file_;
};

/// Null without tensorboard.enabled, and on ranks that write no files. After a failed write no more events are written.
std::unique_ptr<RunListener> listen_for_tensorboard(const ListenerSetup& setup);

}  // namespace ct
