// What this program is made of.
#pragma once

#include <string>

namespace ct {

/// A few lines: version and commit, compiler, libraries, instruction set, kinds of GPUs. Opens no library and no
/// device.
std::string version_text();

}  // namespace ct
