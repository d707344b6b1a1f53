#include "metrics/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/utf8.h"
#include "metrics/log_format.h"

namespace ct {

Console::Console(bool speaks, Verbosity verbosity)
    : speaks_(speaks),
      progress_(speaks && verbosity != Verbosity::quiet && isatty(STDOUT_FILENO) && isatty(STDERR_FILENO)),
      verbosity_(verbosity) {}

void Console::clear_progress() {
  if (!showing_) return;
  std::fputs("\r\x1b[K", stderr);
  showing_ = false;
}

void Console::data(const std::string& line) {
  if (!speaks_) return;
  clear_progress();
  std::fputs((printable(line) + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void Console::note(const std::string& line) {
  if (!speaks_ || verbosity_ == Verbosity::quiet) return;
  clear_progress();
  std::fputs((printable(line) + "\n").c_str(), stderr);
}

void Console::detail(const std::string& line) {
  if (verbosity_ == Verbosity::verbose) note(line);
}

void Console::progress(const std::string& line) {
  if (!progress_) return;
  std::fputs(("\r" + line + "\x1b[K").c_str(), stderr);
  showing_ = true;
}

std::string labels_line(std::string_view title, std::span<const std::string> names) {
  std::string line = std::string(title) + ": ";
  for (const std::string& name : names) line += " " + padded_name(name);
  return line;
}

std::string duration(double seconds) {
  const long s = static_cast<long>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}h {:02}m", s / 3600, s / 60 % 60);
  if (s >= 60) return fmt::format("{}m {:02}s", s / 60, s % 60);
  return fmt::format("{}s", s);
}

}  // namespace ct
