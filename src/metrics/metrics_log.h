// metrics.jsonl and metrics.csv of a run: one record a line, appended as it happens.
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

  /// Appends a record ({"event": ..., ...}) to metrics.jsonl and, where it has scalars, to metrics.csv. Lines that the
  /// disk does not take wait in memory for the next write; problem() says why.
  void write(const Json& record);
  /// Writes what waits, or throws Error(io).
  void flush();
  /// Why lines wait for the disk; empty: nothing waits.
  const std::string& problem() const { return problem_; }

  /// Goes back to the checkpoint of `step`, from which a run continues: whatever was recorded later is dropped, and so
  /// are evaluations at that step, which come after the checkpoint and are repeated where they are due. The files are
  /// replaced by rename.
  static void rewind(FileSystem& files, const Path& run, int64_t step);

 private:
  struct Lines {
    LineFile file;
    std::deque<std::string> waiting;
  };
  Lines jsonl_, csv_;
  std::string problem_;
};

/// A record's line in metrics.csv; none for records without scalars.
std::optional<std::string> csv_line(const Json& record);
std::string csv_header();

}  // namespace ct
