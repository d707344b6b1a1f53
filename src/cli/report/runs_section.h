// The first part of a page: the results of a run, or a table of several runs with the best one marked.
#pragma once

#include <span>

#include "cli/report/markup.h"
#include "cli/report/run_parts.h"
#include "cli/report/sweep_parts.h"

namespace ct::report {

void write_results(Markup& out, const RunParts& run);
/// A row for each run and, if runs differ by seeds or folds only, for each of the settings. In a sweep the names of
/// runs say no more than their keys, and are left out; while some of its runs are missing, no row is the best.
void write_comparison(Markup& out, std::span<const RunParts> runs, const std::optional<SweepParts>& sweep);

}  // namespace ct::report
