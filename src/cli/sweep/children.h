// Processes of this program that run side by side.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"

namespace ct {

/// Whatever ends this process ends them too: none goes on unwatched.
class Children {
 public:
  /// Starts `cifar-train words...`, as `number`. What it prints is appended to `log`.
  void start(size_t number, const std::vector<std::string>& words, const Path& log);
  size_t running() const { return numbers_.size(); }
  /// Asks all of them to save and end. One that was started just now may miss it: to be repeated.
  void stop() const;

  struct Ended {
    size_t number;
    int code;    // its exit code
    int signal;  // that killed it; 0: none
  };
  /// One that has ended since the last call; does not wait.
  std::optional<Ended> poll();

 private:
  std::map<pid_t, size_t> numbers_;
};

}  // namespace ct
