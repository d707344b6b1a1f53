// The exception type for all errors that a user can cause, with the exit code of the process. A message is one line
// with the culprit (file, key, rank, tensor) and the remedy; main() prints it once.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace ct {

enum class ExitCode : int {
  done = 0,
  bug = 1,
  usage = 2,       // usage, configuration, launch
  data = 3,        // data set missing or damaged
  diverged = 4,    // non-finite loss or gradient, repeatedly
  checkpoint = 5,  // checkpoint bad or incompatible
  memory = 6,
  peer = 7,  // a rank was lost or timed out
  io = 8,    // disk full, permission, I/O error
  stopped = 75,
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Concatenates printable values: str("step ", 3, " of ", 7).
template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void fail(ExitCode code, const Parts&... parts) {
  throw Error(code, str(parts...));
}

/// Checks an internal invariant: a violation is a bug (exit 1), not a user's error.
template <class... Parts>
void check(bool holds, const Parts&... parts) {
  if (!holds) fail(ExitCode::bug, "internal error: ", parts...);
}

}  // namespace ct
