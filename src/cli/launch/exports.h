// The variables that a launch exports to the ranks.
#pragma once

#include <map>
#include <string>

namespace ct {

using Exports = std::map<std::string, std::string>;

/// Variables of `environment` (environ) that begin with MLFLOW, PYTHON, MV2, UCX, NCCL or NEBULA; then those of files
/// (add_foreign_exports).
Exports exports_of_launch(const char* const* environment);

}  // namespace ct
