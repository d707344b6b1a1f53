// Trains the runs of a sweep, each in a process with its own folder, and updates the table.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "cli/children.h"
#include "cli/sweep/progress.h"
#include "cli/sweep/records.h"
#include "cli/sweep/results.h"
#include "metrics/console.h"
#include "metrics/metrics_log.h"
#include "train/config/load.h"

namespace ct {

/// Words of `cifar-train` that train one run of a sweep; `words`: those of all of its runs.
std::vector<std::string> words_of_run(std::vector<std::string> words, const SweepRun& run, int64_t ranks,
                                      const Path& folder);

class SweepRunner {
 public:
  struct Options {
    Path out;                        // the folder of the runs' folders
    std::vector<std::string> words;  // a `train` command, of all runs
    std::string initial;             // its options of initial weights, printable; empty: none
    int64_t parallel = 1;
    int64_t gpus = 0;  // of each parallel run
  };
  /// Throws Error(usage) if `out` is no folder.
  SweepRunner(Options options, std::vector<SweepOutcome> runs, Console& console);
  /// What earlier starts of this sweep recorded.
  struct Records {
    std::map<size_t, double> open;  // the latest start of each run, unless its end is recorded; seconds since 1970
    Json plan;                      // the last one
  };
  /// Reads them, and changes no file. Throws Error(usage) if the folder holds anything but this sweep.
  Records look();
  /// Trains the unfinished runs, and returns done or stopped. A failure is thrown after all other runs have ended. If
  /// the sweep's own files cannot be read or written, runs continue, with one message and Error(io) at the end.
  ExitCode run();

 private:
  using Clock = std::chrono::steady_clock;
  /// A run's latest process.
  struct Process {
    int code = 0;       // exit code of the failure; stopped: on request
    int64_t place = 0;  // among the parallel runs
    Clock::time_point begun;
    std::string problem;  // the reason why it could not begin
  };

  void take_record(const SweepRecord& record, std::map<size_t, double>& open);
  void end_what_was_killed(const std::map<size_t, double>& open);
  /// Throws Error(usage) if a run was begun with settings that this sweep does not have.
  void require_same_settings() const;
  void record_end(size_t number, double seconds);
  void append(const Json& record);
  void begin_records_anew();
  void require_replaceable(std::string_view name) const;
  bool is_moved();
  void run_all();
  std::vector<std::string> words_of(size_t number) const;
  void start(size_t number);
  void ended(const Children::Ended& child);
  void report(size_t number, const std::string& what);
  std::string progress() const;
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
  std::function<bool()> in_place_;  // is the output folder still the one that this sweep has locked?
  bool moved_ = false;
  std::string problem_;  // with the sweep's own files, the first
};

}  // namespace ct
