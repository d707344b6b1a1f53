// One run per folder at a time, and forgetting a run.
#pragma once

#include <string>

#include "base/files.h"

namespace ct {

/// Holds OUT/.lock with flock until destroyed; the system releases it when the process dies, however it dies.
class RunLock {
 public:
  /// Makes OUT. If another process holds it: Error(ExitCode::usage) with its pid and host.
  RunLock(FileSystem& files, const Path& out);
  /// Not empty where the file system has no locks: a line to warn with; a second run is not kept out then.
  const std::string& warning() const { return warning_; }

 private:
  File file_;
  std::string warning_;
};

/// Deletes the files of a run that this program wrote, by their fixed names, and the folders emptied by that; OUT,
/// its .lock and everything else stay. A folder with other contents and no sign of a run (neither metrics.jsonl nor
/// ckpt/step-…) is Error(ExitCode::usage). The caller holds the RunLock.
void reset_run(FileSystem& files, const Path& out);

}  // namespace ct
