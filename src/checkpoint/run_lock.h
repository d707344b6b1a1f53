// One run per folder at a time.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"

namespace ct {

inline constexpr std::string_view kLockName = ".lock";

/// Holds OUT/.lock with flock until destroyed; the system releases it when the process dies, however it dies. A file of
/// that name that no run wrote is refused.
class RunLock {
 public:
  /// Makes OUT. If another process holds it: Error(ExitCode::usage) with its pid and host. `files` outlives the lock.
  RunLock(FileSystem& files, const Path& out);
  /// Unless keep() was called, the folders that were made for OUT go again if nothing else is in them: a run that is
  /// refused leaves none behind.
  ~RunLock();
  void keep() { made_.clear(); }
  /// Is the held file still the one that OUT has under the lock's name? Otherwise another run could start there.
  bool in_place() const;
  /// A line to warn with where the file system has no locks: a second run is not kept out then. Else empty.
  const std::string& warning() const { return warning_; }

 private:
  RunLock(FileSystem& files, const Path& out, std::vector<Path> made);

  FileSystem& files_;
  Path out_;
  std::vector<Path> made_;  // the deepest first
  File file_;
  std::string warning_;
};

}  // namespace ct
