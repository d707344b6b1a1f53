// Who shows a run as DeepSpeed does: compat: [console] and csv_monitor.
#pragma once

#include "train/run_listener.h"

namespace ct {

/// Lines of progress and messages of the loss scale in DeepSpeed's words, in place of the program's. Null without
/// compat: [console].
std::unique_ptr<RunListener> listen_for_console(const ListenerSetup& setup);

/// CSV files: in the run's csv/, or where csv_monitor.output_path and job_name say. Every step has its row, with
/// DeepSpeed's tags, values and x: images of all ranks. Null without csv_monitor.enabled, and where no files are
/// written. Once files cannot be written any more, nothing is.
std::unique_ptr<RunListener> listen_for_csv(const ListenerSetup& setup);

}  // namespace ct
