// The page of a report: one HTML file that needs nothing else.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/report/run_parts.h"
#include "cli/report/sweep_parts.h"

namespace ct::report {

struct Report {
  std::string title;  // the run's name, or the sweep's
  std::optional<SweepParts> sweep;
  std::vector<RunParts> runs;
  std::vector<std::string> missing;  // what belongs to no run
};

/// Every page begins so, by which the program knows its own.
extern const std::string_view kPageBeginning;
std::string page_text(const Report& report);

}  // namespace ct::report
