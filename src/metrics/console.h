// The output of a run. Results (lines of metrics/log_format.h) go to stdout, messages to stderr. Only rank 0 prints.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ct {

enum class Verbosity : uint8_t { quiet, normal, verbose };

class Console {
 public:
  Console(bool speaks, Verbosity verbosity);

  /// A line of results on stdout.
  void data(const std::string& line);
  /// A message on stderr, unless quiet.
  void note(const std::string& line);
  void detail(const std::string& line);  // a message on stderr, with -v only
  /// The line that is rewritten in place; only on a terminal.
  void progress(const std::string& line);
  bool shows_progress() const { return progress_; }
  bool speaks() const { return speaks_; }

 private:
  void clear_progress();
  bool speaks_, progress_, showing_ = false;
  Verbosity verbosity_;
};

/// "GroundTruth:    cat  ship  ship plane"
std::string labels_line(std::string_view title, std::span<const std::string> names);
/// "1h 02m", "3m 20s", "12s"
std::string duration(double seconds);

}  // namespace ct
