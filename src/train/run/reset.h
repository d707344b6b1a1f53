// Forgetting a run.
#pragma once

#include "base/files.h"

namespace ct {

/// Deletes the files of a run that this program wrote, by their fixed names, and the folders emptied by that; OUT,
/// its .lock and everything else stay. A folder with other contents and no sign of a run (neither metrics.jsonl nor
/// ckpt/step-…) is Error(ExitCode::usage). The caller holds the RunLock.
void reset_run(FileSystem& files, const Path& out);

}  // namespace ct
