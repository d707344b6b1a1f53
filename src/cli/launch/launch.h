// Runs a launch from its options.
#pragma once

#include "cli/launch/options.h"

namespace ct {

/// Starts `program` (a verb of this program and its words) on all hosts by executing the launcher in this process; if
/// this program starts the ranks itself, returns their exit code. Throws Error(usage) with the invalid option.
int run_launch(const LaunchFlags& flags, const Words& program);

}  // namespace ct
