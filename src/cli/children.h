// Processes of this program that run in parallel.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "metrics/shared_text.h"

namespace ct {

/// If this process ends in any way, the children end too.
class Children {
 public:
  /// Starts `cifar-train words...`, as `number`. Its output is appended to `log`.
  void start(size_t number, const std::vector<std::string>& words, const Path& log);
  /// What its latest process does, as that says itself; empty: nothing yet.
  std::string progress(size_t number) const;
  size_t running() const { return numbers_.size(); }
  /// Asks all of them to save and end. A process that has just been started may miss the request, so it must be
  /// repeated.
  void stop() const;

  struct Ended {
    size_t number;
    int code;    // its exit code
    int signal;  // the signal that killed it; 0: none
  };
  /// One that has ended since the last call; does not wait.
  std::optional<Ended> poll();

 private:
  std::map<pid_t, size_t> numbers_;
  std::map<size_t, SharedText> progress_;
};

/// The error that a child printed last, as its log has it; empty: none.
std::string last_error_in(const Path& log);

}  // namespace ct
