// dump_state: the configuration in force, for whoever reads a log later.
#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"

namespace ct {

/// A title, then every key in the order of its name, "  KEY ......... VALUE" as DeepSpeed's engine prints its own. Of
/// batch keys that are absent it has what follows on so many ranks.
std::vector<std::string> state_dump(const Config& config, int ranks);

}  // namespace ct
