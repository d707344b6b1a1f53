// metrics.jsonl and metrics.csv of a run: one record per line, appended during the run.
#pragma once

#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/files.h"

namespace ct {

using Json = nlohmann::ordered_json;

/// Bytes of a line of metrics.jsonl that is read: an evaluation's with 65,536 classes has up to 1.4 million.
inline constexpr size_t kLongestRecord = 2'000'000;
/// What a line of metrics.jsonl contains; discarded, if it is no JSON or too long. Crashes and editors leave other
/// things among a run's records.
Json record_in(std::string_view line);
/// The lines of a run's records, which may be more than fit into memory. `is_whole`: it ends with a newline. Error(io).
void each_line(const Path& path, const std::function<void(std::string_view line, bool is_whole)>& use);

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
  /// A warning, once, if a file was removed or replaced, so that lines since then are in a new one; otherwise empty.
  std::string take_news() { return std::exchange(news_, ""); }

  /// Rewinds the files to the checkpoint of `step`, from which a run continues: later records are dropped, and also
  /// evaluations at that step, which follow the checkpoint and are repeated if due, and those of the best weights at an
  /// end, which comes again. The files are replaced by rename. Returns a warning if there were lines that are no
  /// records, but for the last one that a crash cut off, or if the run's first record is missing; otherwise empty.
  static std::string rewind(FileSystem& files, const Path& run, int64_t step);

 private:
  struct Lines {
    Path path;
    LineFile (*open)(FileSystem&, const Path&);
    std::optional<LineFile> file = {};
    std::deque<std::string> waiting = {};
  };
  void write_waiting();
  std::string reopen(Lines& lines);

  FileSystem& files_;
  Lines jsonl_, csv_;
  std::string problem_, news_;
};

/// A record's line in metrics.csv; nullopt for records without scalars.
std::optional<std::string> csv_line(const Json& record);
std::string csv_header();

}  // namespace ct
