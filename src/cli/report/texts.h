// Numbers of a report as its tables show them; "-" where there is none.
#pragma once

#include <string>

#include "cli/report/run_parts.h"

namespace ct::report {

std::string dash_or(std::string text);
/// A negative count is none.
std::string count_or_dash(int64_t count);
/// A share of 0 to 1 in percent.
std::string share_text(double share);
std::string figure_or_dash(double number);
std::string bytes_or_dash(double bytes);
/// A negative time is none.
std::string time_or_dash(double seconds);

/// "validation" for val.
std::string split_word(EvaluatedSplit split);
/// "finished", or what it is instead.
std::string state_of(const RunParts& run);
/// The same in two words at most.
std::string brief_state_of(const RunParts& run);
/// Has it ended with an error?
bool has_failed(const RunParts& run);

}  // namespace ct::report
