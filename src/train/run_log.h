// The output of a run: messages, and records for programs (metrics.jsonl), which rank 0 writes.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "metrics/console.h"
#include "metrics/metrics_log.h"

namespace ct {

class RunLog {
 public:
  explicit RunLog(Console& console) : console_(console) {}

  /// Opens the records. Rank 0 only. `is_ours`: is the folder still this run's? Once it is not, nothing is written.
  void open(FileSystem& files, const Path& run, std::function<bool()> is_ours) {
    metrics_.emplace(files, run);
    is_ours_ = std::move(is_ours);
  }
  bool keeps_records() const { return metrics_.has_value(); }
  /// Writes a record; does nothing if no records are kept.
  void record(const Json& record) {
    if (!metrics_ || !is_ours_()) return;
    const bool was_well = metrics_->problem().empty();
    metrics_->write(record);
    if (was_well && !metrics_->problem().empty())
      warn("records wait in memory until they can be written: " + metrics_->problem());
    if (const std::string news = metrics_->take_news(); !news.empty()) warn(news);
  }
  /// Returns once all records are on the disk, or throws Error(io).
  void sync() {
    if (metrics_ && is_ours_()) metrics_->sync();
  }

  Console& console() { return console_; }
  void note(const std::string& line) { console_.note(line); }
  void warn(const std::string& line) { console_.note("warning: " + line); }

 private:
  Console& console_;
  std::optional<MetricsLog> metrics_;
  std::function<bool()> is_ours_;
};

}  // namespace ct
