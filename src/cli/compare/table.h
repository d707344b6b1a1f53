// The table of `compare`: a line for each way to train.
#pragma once

#include <span>
#include <string>

#include "cli/compare/ways.h"
#include "cli/report/run_parts.h"

namespace ct {

/// The width of the names' column.
size_t name_width(std::span<const Way> ways);
std::string head_of_ways(size_t name_width);
std::string line_of_way(const Way& way, size_t name_width, const report::RunRecords& records);
/// What the columns mean.
extern const char* const kColumnsOfWays;

}  // namespace ct
