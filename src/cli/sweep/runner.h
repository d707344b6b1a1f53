// Trains the runs of a sweep, each as a process with a folder of its own, and keeps the table up to date.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "cli/sweep/children.h"
#include "cli/sweep/results.h"
#include "metrics/console.h"
#include "metrics/metrics_log.h"
#include "train/config/load.h"

namespace ct {

/// Words of `cifar-train` that train one run of a sweep.
std::vector<std::string> words_of_run(const ConfigSources& sources, const SweepRun& run, int64_t ranks,
                                      const Path& folder);

class SweepRunner {
 public:
  struct Options {
    Path out;               // the folder of the runs' folders
    ConfigSources sources;  // of all runs
    int64_t parallel = 1;
    int64_t gpus = 0;  // of each of those side by side
  };
  SweepRunner(Options options, std::vector<SweepOutcome> runs, Console& console);
  /// Trains what is not trained yet, and returns done or stopped. Whatever failed is thrown when all others are done.
  /// Files of the sweep itself that cannot be read or written stop no run: that is told once, and Error(io) in the end.
  ExitCode run();

 private:
  using Clock = std::chrono::steady_clock;
  /// A run's latest process.
  struct Process {
    int code = 0;       // it failed with; stopped: on request
    int64_t place = 0;  // among those side by side
    Clock::time_point begun;
    std::string problem;  // why it could not begin
  };
  /// A run's latest line in the records that says when it began, as long as none says that it ended.
  using Open = std::map<size_t, double>;  // seconds since 1970

  void take_records();
  void take_record(const Json& record, Open& open);
  void end_what_was_killed(const Open& open);
  /// Error(usage) where a run was begun with settings that this sweep has not: nothing is touched then.
  void require_same_settings() const;
  void record_end(size_t number, double seconds);
  void run_all();
  std::vector<std::string> words_of(size_t number) const;
  void start(size_t number);
  void ended(const Children::Ended& child);
  void tell(size_t number, const std::string& what);
  void write_results();
  void on_own_files(const std::function<void()>& read_or_write);
  void require_success();
  Path folder(size_t number) const { return options_.out / runs_[number].run.folder(); }
  Path log(size_t number) const { return folder(number) / "log.txt"; }
  std::string last_error(size_t number);

  Options options_;
  std::vector<SweepOutcome> runs_;
  Console& console_;
  FileSystem files_;
  std::optional<LineFile> records_;
  Children children_;
  std::vector<Process> processes_;  // of the runs
  std::deque<int64_t> free_places_;
  std::string problem_;  // with the sweep's own files, the first
};

}  // namespace ct
