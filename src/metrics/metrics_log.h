// metrics.jsonl and metrics.csv of a run: one record per line, appended during the run.
#pragma once

#include <deque>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/files.h"

namespace ct {

using Json = nlohmann::ordered_json;

class MetricsLog {
 public:
  MetricsLog(FileSystem& files, const Path& run);

  /// Appends a record ({"event": ..., ...}) to metrics.jsonl and, if it has scalars, to metrics.csv. Lines that cannot
  /// be written stay in memory until the next write; problem() returns the reason.
  void write(const Json& record);
  /// Returns once all lines are on the disk, or throws Error(io).
  void sync();
  /// The reason why lines wait; empty: none waits.
  const std::string& problem() const { return problem_; }

  /// Rewinds the files to the checkpoint of `step`, from which a run continues: later records are dropped, and also
  /// evaluations at that step, which follow the checkpoint and are repeated if due, and those of the best weights at an
  /// end, which comes again. The files are replaced by rename.
  static void rewind(FileSystem& files, const Path& run, int64_t step);

 private:
  void write_waiting();

  struct Lines {
    LineFile file;
    std::deque<std::string> waiting;
  };
  Lines jsonl_, csv_;
  std::string problem_;
};

/// A record's line in metrics.csv; nullopt for records without scalars.
std::optional<std::string> csv_line(const Json& record);
std::string csv_header();

}  // namespace ct
