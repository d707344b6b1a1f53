// The output of a run. Results (lines of metrics/log_format.h) go to stdout, messages to stderr. Only rank 0 prints.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ct {

enum class Verbosity : uint8_t { quiet, normal, verbose };

/// A user always sees what runs. On a terminal one line says so, which is rewritten in place, but on a dumb one. In a
/// log a line says so where nothing else was printed for half a minute. A thread prints both, so that no work has to.
class Console {
 public:
  /// `progress_fd`: a SharedText that always has what runs, for the process that started this one; -1: none.
  Console(bool speaks, Verbosity verbosity, int progress_fd = -1);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// A line of results on stdout.
  void data(const std::string& line);
  /// A message on stderr, unless quiet.
  void note(const std::string& line);
  void detail(const std::string& line);  // a message on stderr, with -v only
  /// A message on stderr that begins with date and time, except on a terminal, where the user sees when it comes.
  void dated_note(const std::string& line);

  /// What runs from now on: "saving the checkpoint of step 500"; empty: nothing that is shown.
  void progress(const std::string& what);
  /// The same of work that has advanced. `what` returns the text, and is called a few times a second only. For one
  /// thread.
  template <class What>
  void advance(const What& what) {
    if (!notes() || Clock::now() < due_) return;
    progress(what());
    due_ = Clock::now() + (terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(1));
  }
  bool speaks() const { return speaks_; }
  bool on_terminal() const { return terminal_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool notes() const { return speaks_ && verbosity_ != Verbosity::quiet; }
  void print(std::FILE* to, const std::string& line);
  std::string dated(const std::string& line) const;
  void clear_progress();
  void show_in_place(const std::string& line);
  void start_thread();
  void run();
  void show_again();

  const bool speaks_, terminal_;
  const Verbosity verbosity_;
  const int progress_fd_;
  Clock::time_point due_;  // advance()
  std::mutex mutex_;       // of all that follows
  std::string what_;       // runs; empty: nothing that was named
  Clock::time_point since_, printed_ = Clock::now();
  bool showing_ = false, ends_ = false;
  std::condition_variable ending_;
  std::thread thread_;  // the last member, because it uses the others
};

/// Shows what runs during work() of a verb that has no console.
template <class Work>
auto shown(const std::string& what, const Work& work) {
  Console console(true, Verbosity::normal);
  console.progress(what);
  return work();
}

/// "GroundTruth:    cat  ship  ship plane"
std::string labels_line(std::string_view title, std::span<const std::string> names);
/// "12 s", "3 min 20 s", "45 min", "1 h 02 min"
std::string duration(double seconds);

}  // namespace ct
