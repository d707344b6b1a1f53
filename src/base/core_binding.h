// Binds the ranks of one host to different cores.
#pragma once

#include <string>
#include <vector>

namespace ct {

/// "0,2-4,6" -> 0, 2, 3, 4, 6: ascending, without duplicates. Throws ExitCode::usage with DeepSpeed's messages.
std::vector<int> parse_core_list(const std::string& text);

/// Part `index` of `parts` equal parts; remaining cores are not used. Throws ExitCode::usage if there are fewer cores
/// than `parts`.
std::vector<int> share_of(const std::vector<int>& all, int index, int parts);

/// Throws Error(usage) with the first core of `list` on which this process may not run.
void require_cores_here(const std::string& list);

/// Binds this process to its share of `list` (the system's numbers of logical CPUs), or, if it is empty, of the allowed
/// cores, each with all its hardware threads. Must be called before threads are started. Throws ExitCode::usage if
/// there are too few cores, or if the system refuses.
void bind_to_share(const std::string& list, int index, int parts);

}  // namespace ct
