// `--version`: which program this is.
#pragma once

#include <string>

#include "cli/verbs.h"

namespace ct {

/// Prints version and commit, compiler, instruction set, targets on GPUs, and libraries with their versions: one line
/// each, or with --json one object. Opens no device. Throws Error(usage) for other words.
void print_version(const Words& words);

}  // namespace ct
