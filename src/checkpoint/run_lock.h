// One run per folder at a time.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"

namespace ct {

inline constexpr std::string_view kLockName = ".lock";

/// Holds OUT/.lock with flock until destroyed; the system releases it when the process dies in any way. A file of that
/// name that no run wrote is refused.
class RunLock {
 public:
  /// Creates OUT. If another process holds the lock: Error(ExitCode::usage) with its pid and host. `files` must outlive
  /// the lock.
  RunLock(FileSystem& files, const Path& out);
  /// Unless keep() was called, removes the folders that were created for OUT if they are otherwise empty, so a refused
  /// run leaves no folder.
  ~RunLock();
  void keep() { made_.clear(); }
  /// Is the held file still OUT/.lock? Otherwise another run could start there.
  bool in_place() const;
  /// A warning if the file system has no locks, so that a second run is not refused; otherwise empty.
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
