#include "cli/sweep/runner.h"

#include <algorithm>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <limits>
#include <numeric>
#include <ranges>
#include <sstream>
#include <thread>
#include <utility>

#include "base/paths.h"
#include "base/text.h"
#include "checkpoint/run_lock.h"
#include "train/config/load.h"
#include "train/config/resume.h"
#include "train/device.h"
#include "train/run/run_files.h"
#include "train/signals.h"

namespace ct {
namespace {

using namespace std::chrono_literals;

constexpr int kStopped = static_cast<int>(ExitCode::stopped), kDiverged = static_cast<int>(ExitCode::diverged);

/// What a run may change when it goes on, and the numbers of a sweep's table may not: all but more epochs or steps.
std::vector<std::string> other_results(const Config& saved, const Config& now) {
  std::vector<std::string> others;
  const auto add = [&](const char* key, int64_t was, int64_t is) {
    others.push_back(str(key, ": ", was, " saved, ", is, " now"));
  };
  const auto most = [](int64_t steps) { return steps < 0 ? std::numeric_limits<int64_t>::max() : steps; };
  const auto &a = saved.train, &b = now.train;
  if (b.epochs < a.epochs) add("train.epochs", a.epochs, b.epochs);
  if (most(b.max_steps) < most(a.max_steps)) add("train.max_steps", a.max_steps, b.max_steps);
  if (b.eval_interval != a.eval_interval) add("train.eval_interval", a.eval_interval, b.eval_interval);
  if (b.early_stopping.patience != a.early_stopping.patience)
    add("train.early_stopping.patience", a.early_stopping.patience, b.early_stopping.patience);
  return others;
}

template <class TimePoint>
double since_1970(const TimePoint& time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A process of a sweep that was killed just now may not be gone yet.
void wait_until_free(FileSystem& files, const Path& run) {
  for (int i = 0; i < 50 && is_there(run / kLockName) && StopSignals::requested() == 0; ++i) {
    try {
      const RunLock lock(files, run);
      return;
    } catch (const Error&) {  // if it stays so, the run itself will say why
      std::this_thread::sleep_for(100ms);
    }
  }
}

}  // namespace

std::vector<std::string> words_of_run(std::vector<std::string> words, const SweepRun& run, int64_t ranks,
                                      const Path& folder) {
  for (const ConfigOverride& set : run.overrides()) words.insert(words.end(), {"--set", set.key + "=" + set.value});
  words.insert(words.end(), {"--ranks", str(ranks), "--output", folder.string()});
  return words;
}

SweepRunner::SweepRunner(Options options, std::vector<SweepOutcome> runs, Console& console)
    : options_(std::move(options)), runs_(std::move(runs)), console_(console), processes_(runs_.size()) {
  require_folder_or_nothing(options_.out);
  for (int64_t place = 0; place < options_.parallel; ++place) free_places_.push_back(place);
}

ExitCode SweepRunner::run() {
  RunLock lock(files_, options_.out,
               {.say = [this](const std::string& line) { console_.note("warning: " + line); },
                .give_up = [] { return StopSignals::requested() != 0; }});
  const Records before = look();
  lock.keep();
  in_place_ = [&lock] { return lock.in_place(); };
  records_.emplace(files_, options_.out / kSweepRecords);
  if (const Json plan = sweep_record(runs_, options_.initial); plan != before.plan) records_->append(plan.dump());
  end_what_was_killed(before.open);
  run_all();
  write_results();
  std::istringstream table(table_text(runs_));
  for (std::string line; std::getline(table, line);) console_.data(line);
  const bool stopping = StopSignals::requested() != 0;
  const auto is_left = [&](size_t i) {
    return processes_[i].code == kStopped || (stopping && processes_[i].code == 0 && !runs_[i].result);
  };
  if (std::ranges::any_of(std::views::iota(size_t{0}, runs_.size()), is_left)) {
    console_.note("stopped on request: run the same command again to continue");
    return ExitCode::stopped;
  }
  if (moved_) fail(ExitCode::io, problem_);  // with the logs of the runs
  require_success();
  if (!problem_.empty()) fail(ExitCode::io, problem_);
  if (const std::string best = best_by_validation(runs_); !best.empty()) console_.note(best);
  console_.note(str("results: ", (options_.out / kSweepTable).string(), ", ", kSweepResults, ", ", kSweepPlot));
  return ExitCode::done;
}

// ---- what earlier starts left

SweepRunner::Records SweepRunner::look() {
  require_own_sweep_files(options_.out);
  require_same_settings();
  Records before;
  const Path path = options_.out / kSweepRecords;
  if (!is_there(path)) return before;
  for (const SweepRecord& record : read_sweep_records(path)) {
    take_record(record, before.open);
    if (record.event == "sweep") before.plan = record.whole;
  }
  return before;
}

/// A run needs no more when it was trained, or diverged, with this very configuration.
void SweepRunner::take_record(const SweepRecord& record, std::map<size_t, double>& open) {
  if (record.event == "sweep" && record.initial != options_.initial)
    fail(ExitCode::usage, "output folder ", in_quotes(options_.out.native()), " holds another sweep, whose runs began ",
         record.initial.empty() ? "without --init" : "with " + record.initial,
         ": restore this, or give another --output");
  const auto found = std::ranges::find(runs_, record.run, [](const SweepOutcome& o) { return o.run.folder(); });
  const bool ended = record.event == "run";
  if (found == runs_.end() && ended)
    fail(ExitCode::usage, "output folder ", in_quotes(options_.out.native()),
         " holds another sweep: this one has no run ", in_quotes(record.run), "; give another --output");
  if (found == runs_.end()) return;
  const auto i = static_cast<size_t>(found - runs_.begin());
  if (record.event == "begin") open[i] = record.time;
  if (!ended) return;
  open.erase(i);
  const bool same = record.config_crc32c == found->fingerprint && is_folder(folder(i));
  found->seconds += record.seconds;
  found->result = same && record.code == 0 ? read_result(folder(i), found->config) : std::nullopt;
  found->finished = found->result ? record.ended : "";
  processes_[i].code = same && record.code == kDiverged ? kDiverged : 0;
}

void SweepRunner::require_same_settings() const {
  for (size_t i = 0; i < runs_.size(); ++i) {
    const Path path = folder(i) / kConfigFile;
    if (!is_there(path) || !is_there(folder(i) / kCheckpointFolder)) continue;  // it begins anew
    const Config saved = load_config_text(read_file(path), path.string());
    Config now = runs_[i].config;
    settle_like(now, saved);
    if (now.data.dataset == "auto") now.data.dataset = saved.data.dataset;  // the run finds it again
    ResumeDifference difference = resume_difference(saved, runs_[i].ranks, now, runs_[i].ranks);
    for (std::string& other : other_results(saved, now)) difference.forbidden.push_back(std::move(other));
    if (difference.forbidden.empty()) continue;
    fail(ExitCode::usage, "output folder ", in_quotes(options_.out.native()),
         " holds another sweep: ", in_quotes(runs_[i].run.folder()), " was started with other settings (",
         difference.forbidden.front(), difference.forbidden.size() > 1 ? ", ..." : "",
         "): restore them, or give another --output");
  }
}

/// Runs that ended with an earlier sweep: they went on until they wrote their records last.
void SweepRunner::end_what_was_killed(const std::map<size_t, double>& open) {
  for (const auto& [number, begun] : open) {
    std::error_code error;
    const auto written = std::filesystem::last_write_time(folder(number) / kMetricsFile, error);
    const double last = error ? begun : since_1970(std::chrono::file_clock::to_sys(written));
    processes_[number].code = static_cast<int>(ExitCode::peer);
    record_end(number, std::max(last - begun, 0.0));
    processes_[number].code = 0;  // it is to be trained
  }
}

/// Adds the seconds of a process that has ended.
void SweepRunner::record_end(size_t number, double seconds) {
  append(end_record(runs_[number], processes_[number].code, seconds));
  runs_[number].seconds += seconds;
}

void SweepRunner::append(const Json& record) {
  on_own_files([&] {
    if (!is_moved() && !records_->in_place()) begin_records_anew();
    records_->append(record.dump());
  });
}

/// With what has been recorded of the runs.
void SweepRunner::begin_records_anew() {
  require_replaceable(kSweepRecords);
  records_.emplace(files_, options_.out / kSweepRecords);
  console_.note(str("warning: ", in_quotes((options_.out / kSweepRecords).native()),
                    " was removed or replaced while the sweep was using it: it is written anew"));
  records_->append(sweep_record(runs_, options_.initial).dump());
  for (size_t i = 0; i < runs_.size(); ++i)
    if (runs_[i].seconds > 0) records_->append(end_record(runs_[i], processes_[i].code, runs_[i].seconds).dump());
}

/// Somebody may have put a file there since the sweep began.
void SweepRunner::require_replaceable(std::string_view name) const {
  const Path path = options_.out / name;
  if (kind_of(path) == PathKind::file && !is_own_sweep_file(options_.out, name))
    fail(ExitCode::io, in_quotes(path.native()),
         " was written by another program while the sweep was using it, and is not replaced: move it away, and run the "
         "same command again");
}

/// Was the folder moved, removed or replaced?
bool SweepRunner::is_moved() {
  if (moved_ || in_place_()) return moved_;
  moved_ = true;
  problem_ = str("output folder ", in_quotes(options_.out.native()),
                 " was moved, removed or replaced while the sweep was using it: put it back, and run the same command "
                 "again");
  console_.note(str("warning: ", problem_, "; no other run begins"));
  return true;
}

// ---- processes

void SweepRunner::run_all() {
  Clock::time_point asked;  // to stop
  for (size_t next = 0; next < runs_.size() || children_.running() > 0;) {
    const bool stopping = StopSignals::requested() != 0;
    if ((stopping || moved_) && children_.running() == 0) return;
    if (stopping && Clock::now() - asked > 1s) {
      if (asked == Clock::time_point()) console_.note(str("stopping: ", children_.running(), " runs save and end"));
      asked = Clock::now();
      children_.stop();
    }
    if (const auto child = children_.poll()) {
      ended(*child);
    } else if (!stopping && next < runs_.size() && (runs_[next].result || processes_[next].code != 0)) {
      report(next, runs_[next].result ? "is done" : "has diverged before");
      ++next;
    } else if (!stopping && next < runs_.size() && !free_places_.empty() && !is_moved()) {
      start(next);
      ++next;
    } else {
      console_.advance([this] { return progress(); });
      std::this_thread::sleep_for(10ms);
    }
  }
}

/// "1 of 6 runs has ended; [2/6] epoch 1/3, step 400/1200, loss 0.412; 12 min left"
std::string SweepRunner::progress() const {
  std::vector<double> wholes, waiting;  // seconds of a run by its steps or epochs; steps or epochs to do
  std::vector<double> left;             // seconds, of those that run
  std::string text;
  int64_t ended = 0;
  for (size_t i = 0; i < runs_.size(); ++i) {
    const SweepOutcome& run = runs_[i];
    const double work = work_of(run.config);
    if (run.result || processes_[i].code != 0) {
      ++ended;
      if (run.result) wholes.push_back(run.seconds / work);
    } else if (processes_[i].begun == Clock::time_point()) {
      waiting.push_back(work);
    } else {
      const std::string now = brief_progress(children_.progress(i));
      text += str("; [", i + 1, "/", runs_.size(), "] ", now.empty() ? "begins" : now);
      const auto seconds_left = seconds_left_of(folder(i));
      if (!seconds_left) continue;
      left.push_back(*seconds_left);
      wholes.push_back((run.seconds + seconds_since(processes_[i].begun) + left.back()) / work);
    }
  }
  text = str(ended, " of ", counted(std::ssize(runs_), "run"),
             ended == 1 || runs_.size() == 1 ? " has ended" : " have ended", text);
  if (wholes.empty() || left.size() < children_.running()) return text;
  const double whole = mean_and_deviation(wholes).mean;
  double all = whole * std::accumulate(waiting.begin(), waiting.end(), 0.0);
  all += std::accumulate(left.begin(), left.end(), 0.0);
  return text + "; " + duration(all / static_cast<double>(options_.parallel)) + " left";
}

std::vector<std::string> SweepRunner::words_of(size_t number) const {
  const SweepOutcome& outcome = runs_[number];
  std::vector<std::string> words = words_of_run(options_.words, outcome.run, outcome.ranks, folder(number));
  if (wants_cuda(outcome.config) && options_.parallel > 1)  // each has GPUs of its own; the last --set counts
    words.insert(words.end(),
                 {"--set", str("device=cuda:", first_gpu(outcome.config) + processes_[number].place * options_.gpus)});
  return words;
}

void SweepRunner::start(size_t number) {
  processes_[number] = {.place = free_places_.front(), .begun = Clock::now()};
  try {
    make_folders(files_, folder(number));
    wait_until_free(files_, folder(number));
    children_.start(number, words_of(number), log(number));
  } catch (const Error& e) {
    if (e.code() != ExitCode::io) throw;
    processes_[number].code = static_cast<int>(e.code());
    processes_[number].problem = e.what();
    return report(number, str("cannot begin: ", e.what()));
  }
  free_places_.pop_front();
  append(begin_record(runs_[number], since_1970(std::chrono::system_clock::now())));
  report(number, "begins");
}

void SweepRunner::ended(const Children::Ended& child) {
  SweepOutcome& outcome = runs_[child.number];
  Process& process = processes_[child.number];
  free_places_.push_back(process.place);
  // The signal that asks it to stop may come before the process knows what to do with it.
  process.code = child.signal == SIGUSR1 ? kStopped : child.signal != 0 ? static_cast<int>(ExitCode::peer) : child.code;
  if (process.code == 0) {
    on_own_files([&] { outcome.result = read_result(folder(child.number), outcome.config); });
    if (!outcome.result) process.code = static_cast<int>(ExitCode::io);  // what it wrote is lost
  }
  record_end(child.number, seconds_since(process.begun));
  if (outcome.result) {
    outcome.finished = local_time(std::time(nullptr));
    report(child.number, str("accuracy ", percent(outcome.result->kept.accuracy), ", ", duration(outcome.seconds)));
  } else if (process.code == kStopped) {
    report(child.number, "stopped, its checkpoint is good");
  } else {
    report(child.number, str("failed with exit code ", process.code, last_error(child.number)));
  }
  write_results();
}

void SweepRunner::report(size_t number, const std::string& what) {
  console_.note(str("[", number + 1, "/", runs_.size(), "] ", runs_[number].run.text(/*with_seed=*/true), ": ", what));
}

void SweepRunner::write_results() {
  if (is_moved()) return;
  const auto write = [&](std::string_view name, const std::string& text) {
    on_own_files([&] {
      require_replaceable(name);
      write_file_atomic(files_, options_.out / name, text);
    });
  };
  write(kSweepTable, sealed_sweep_file("\n" + table_text(runs_), "<!-- ", " -->"));
  write(kSweepResults, sealed_sweep_file(results_text(runs_), "Experiment: none, this is of ", ""));
  write(kSweepPlot, sealed_sweep_file(plot_text(runs_), "<!-- ", " -->"));
}

/// A failure is reported once, at the end: it does not end the runs.
void SweepRunner::on_own_files(const std::function<void()>& read_or_write) {
  try {
    read_or_write();
  } catch (const Error& e) {
    if (e.code() != ExitCode::io) throw;
    if (problem_.empty()) console_.note(str("warning: ", e.what(), "; the runs continue"));
    if (problem_.empty()) problem_ = e.what();
  }
}

/// ": " and the reason of the run's failure, if it is known.
std::string SweepRunner::last_error(size_t number) {
  std::string last = processes_[number].problem;
  if (last.empty()) on_own_files([&] { last = last_error_in(log(number)); });
  return last.empty() ? "" : ": " + last;
}

void SweepRunner::require_success() {
  const auto failed = [](const Process& process) { return process.code != 0; };
  const auto count = std::ranges::count_if(processes_, failed);
  if (count == 0) return;
  const auto first = static_cast<size_t>(std::ranges::find_if(processes_, failed) - processes_.begin());
  fail(static_cast<ExitCode>(processes_[first].code), count, " of ", runs_.size(), " runs failed; ",
       runs_[first].run.text(/*with_seed=*/true), last_error(first), "; look at ", in_quotes(log(first).native()));
}

}  // namespace ct
