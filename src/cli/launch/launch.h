// A launch: from its options to ranks that run.
#pragma once

#include "cli/launch/options.h"

namespace ct {

/// Starts `program` (words of this program: a verb and its own) on all hosts, and becomes the launcher that does so;
/// where this program starts the ranks itself, returns their exit code. Throws Error(usage) naming the option that
/// makes no sense.
int run_launch(const LaunchFlags& flags, const Words& program);

}  // namespace ct
