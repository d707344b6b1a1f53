// Ranks of one host, each on cores of its own.
#pragma once

#include <string>
#include <vector>

namespace ct {

/// "0,2-4,6" -> 0, 2, 3, 4, 6: rising, none twice. Throws ExitCode::usage, in DeepSpeed's words.
std::vector<int> parse_core_list(const std::string& text);

/// The share of part `index` of `parts` equal ones; what is left over goes to nobody. Throws ExitCode::usage where
/// there are fewer than `parts`.
std::vector<int> share_of(const std::vector<int>& all, int index, int parts);

/// Error(usage) names the first core of `list` on which this process may not run.
void require_cores_here(const std::string& list);

/// Binds this process to its share of `list` (numbers of logical CPUs, as the system counts them), or, where that is
/// empty, of the cores that it may run on, each with all its hardware threads. Before threads are started. Throws
/// ExitCode::usage where there are too few, or the system refuses.
void bind_to_share(const std::string& list, int index, int parts);

}  // namespace ct
