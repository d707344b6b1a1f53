// One run per folder at a time.
#pragma once

#include <string>

#include "base/files.h"

namespace ct {

inline constexpr std::string_view kLockName = ".lock";

/// Holds OUT/.lock with flock until destroyed; the system releases it when the process dies, however it dies. A file of
/// that name that no run wrote is refused.
class RunLock {
 public:
  /// Makes OUT. If another process holds it: Error(ExitCode::usage) with its pid and host.
  RunLock(FileSystem& files, const Path& out);
  /// Is what is held still what `out` has under the lock's name? Otherwise another run could start there.
  bool is_in(const Path& out) const;
  /// Not empty where the file system has no locks: a line to warn with; a second run is not kept out then.
  const std::string& warning() const { return warning_; }

 private:
  File file_;
  std::string warning_;
};

}  // namespace ct
