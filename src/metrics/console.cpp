#include "metrics/console.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <system_error>

#include "base/error.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/utf8.h"
#include "metrics/log_format.h"
#include "metrics/shared_text.h"

namespace ct {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kTick = 250ms, kSilence = 1s, kSilenceInLogs = 30s;

/// In place of what the cursor's row holds: the beginning of a line, as much as fits before the last column. Blanks
/// clear the rest, not an escape sequence, which some terminals show and NO_COLOR may mean.
std::string in_one_row(const std::string& line) {
  const int columns = terminal_columns(STDERR_FILENO) - 1;
  const std::string_view fits = first_columns(line, columns);
  return str("\r", fits, std::string(static_cast<size_t>(columns - columns_of(fits)), ' '), "\r");
}

}  // namespace

Console::Console(bool speaks, Verbosity verbosity, int progress_fd)
    : speaks_(speaks),
      terminal_(isatty(STDOUT_FILENO) && rewrites_lines(STDERR_FILENO)),
      verbosity_(verbosity),
      progress_fd_(progress_fd) {}

Console::~Console() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    clear_progress();
  }
  ending_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Console::clear_progress() {
  if (!showing_) return;
  std::fputs(in_one_row("").c_str(), stderr);
  showing_ = false;
}

void Console::print(std::FILE* to, const std::string& line) {
  const std::lock_guard lock(mutex_);
  clear_progress();
  const std::string text = printable(line);
  std::fputs(((to == stderr ? in_rows(STDERR_FILENO, text) : text) + "\n").c_str(), to);
  if (to == stdout) std::fflush(stdout);
  printed_ = Clock::now();
}

void Console::data(const std::string& line) {
  if (speaks_) print(stdout, line);
}

void Console::note(const std::string& line) {
  if (notes()) print(stderr, line);
}

void Console::detail(const std::string& line) {
  if (verbosity_ == Verbosity::verbose) note(line);
}

std::string Console::dated(const std::string& line) const {
  return terminal_ ? line : local_time(std::time(nullptr)) + "  " + line;
}

void Console::dated_note(const std::string& line) { note(dated(line)); }

// ---- what runs

void Console::progress(const std::string& what) {
  if (!notes()) return;
  due_ = {};
  start_thread();
  const std::lock_guard lock(mutex_);
  what_ = what;
  since_ = Clock::now();
  if (progress_fd_ >= 0) write_shared_text(progress_fd_, printable(what));
  if (what.empty()) return clear_progress();
  if (!terminal_) return;
  show_in_place(printable(what));
  printed_ = since_;
}

void Console::show_in_place(const std::string& line) {
  std::fputs(in_one_row(line).c_str(), stderr);
  showing_ = true;
}

void Console::start_thread() {
  if (thread_.joinable()) return;
  sigset_t all, before;  // signals are for the other threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread(&Console::run, this);
  } catch (const std::system_error&) {  // no thread: what runs is shown when it says so itself
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Console::run() {
  pthread_setname_np(pthread_self(), "console");
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, kTick, [this] { return ends_; })) show_again();
}

/// While the work says nothing new: what runs, and for how long it has.
void Console::show_again() {
  const auto now = Clock::now();
  if (what_.empty() || now - printed_ < (terminal_ ? kSilence : kSilenceInLogs)) return;
  const double age = std::chrono::duration<double>(now - since_).count();
  const std::string line = printable(age < 1 ? what_ : what_ + ", for " + duration(age));
  if (terminal_)
    show_in_place(line);
  else
    std::fputs((dated(line) + "\n").c_str(), stderr);
  printed_ = now;
}

std::string labels_line(std::string_view title, std::span<const std::string> names) {
  std::string line = std::string(title) + ": ";
  for (const std::string& name : names) line += " " + padded_name(name);
  return line;
}

std::string duration(double seconds) {
  const long s = static_cast<long>(seconds + 0.5), minutes = (s + 30) / 60;
  if (s < 60) return fmt::format("{} s", s);
  if (s < 600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  if (minutes < 60) return fmt::format("{} min", minutes);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

}  // namespace ct
