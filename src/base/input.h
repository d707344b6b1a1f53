// What a user names as input and what is read once, from its beginning to its end: a file, or what another program
// writes into a pipe (process substitution, /dev/stdin).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/files.h"

namespace ct {

/// How long a pipe may be silent until it is named on standard error, and until it is given up.
struct PipePatience {
  std::chrono::milliseconds named = std::chrono::seconds(2), given_up = std::chrono::minutes(2);
};

/// An input opened for reading; nobody is waited for yet. A folder is refused. Every failure is Error(code).
class Input {
 public:
  Input(const Path& path, ExitCode code, PipePatience patience = {});
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  ~Input();

  /// The next bytes, at most so many; none: the end. A pipe that ends without any, as one does that was read already,
  /// is refused, and one that is silent for too long.
  size_t read(std::span<std::byte> out);
  /// Waits for the first bytes and gives the descriptor away, whose reads wait.
  int release();

 private:
  void wait() const;

  Path path_;
  ExitCode code_;
  PipePatience patience_;
  int fd_ = -1;
  bool is_pipe_ = false, is_begun_ = false;
};

/// All of it; more than `limit` bytes, a number of MiB, are refused.
std::string read_input(const Path& path, size_t limit, ExitCode code, PipePatience patience = {});

}  // namespace ct
