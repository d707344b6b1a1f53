// A sweep as its folder shows it: its records, and the folders of its runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"

namespace ct::report {

struct SweepParts {
  std::vector<std::string>
      runs;  // names of the folders that hold a run: in the order in which they began, then by name
  std::vector<std::string> keys;         // that its runs vary, the seed among them; empty: not recorded
  std::map<std::string, int64_t> codes;  // by run: that of its last process, if it is not 0 (base/error.h)
  std::vector<std::string> missing;      // a line for each run that began and cannot be shown, and for damaged records
  std::vector<std::string> strangers;    // a line for each other run in the folder
  size_t planned = 0;                    // runs; 0: not recorded
  size_t begun = 0;
};

/// Nullopt: it is no sweep's folder.
std::optional<SweepParts> read_sweep(const Path& folder);

}  // namespace ct::report
