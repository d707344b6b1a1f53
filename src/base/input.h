// Input files that are read once from beginning to end, so they may be pipes (process substitution, /dev/stdin).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/files.h"

namespace ct {

/// The time after which a silent pipe is reported on standard error, and after which it is refused.
struct PipePatience {
  std::chrono::milliseconds named = std::chrono::seconds(2), given_up = std::chrono::minutes(2);
};

/// An input opened for reading, without waiting for its writer. Throws for a folder. Every failure is Error(code).
class Input {
 public:
  Input(const Path& path, ExitCode code, PipePatience patience = {});
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  ~Input();

  /// Reads the next bytes and returns their number; 0: the end. Throws for a pipe that ends without any bytes, for
  /// example because it was already read, and for one that is silent for too long.
  size_t read(std::span<std::byte> out);
  /// Waits for the first bytes and releases the descriptor, in blocking mode.
  int release();

 private:
  void wait() const;

  FileSystem files_;
  Path path_;
  ExitCode code_;
  PipePatience patience_;
  int fd_ = -1;
  bool is_pipe_ = false, is_begun_ = false;
};

/// Reads the whole input; throws for more than `limit` bytes, a whole number of MiB.
std::string read_input(const Path& path, size_t limit, ExitCode code, PipePatience patience = {});

}  // namespace ct
