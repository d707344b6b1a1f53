// Listeners that show a run in DeepSpeed's formats: compat: [console] and csv_monitor.
#pragma once

#include "train/run_listener.h"

namespace ct {

/// Lines of progress and messages of the loss scale in DeepSpeed's form, instead of the program's. Null without compat:
/// [console].
std::unique_ptr<RunListener> listen_for_console(const ListenerSetup& setup);

/// CSV files in the run's csv/, or in the folder of csv_monitor.output_path and job_name. Every step has a row, with
/// DeepSpeed's tags, values and x (images of all ranks). Null without csv_monitor.enabled, and on ranks that write no
/// files. After a failed write no more rows are written.
std::unique_ptr<RunListener> listen_for_csv(const ListenerSetup& setup);

}  // namespace ct
