// The files of a sweep's folder beside its runs; each can be told from one that somebody else wrote or edited.
#pragma once

#include <string>

#include "base/files.h"

namespace ct {

/// Beside kSweepRecords (train/run/run_files.h): what ended when, a line each.
inline constexpr const char *kSweepTable = "table.md", *kSweepResults = "results.txt", *kSweepPlot = "plot.svg";

/// Error(usage) naming the first file in `out` that a sweep would replace and that is not of its making.
void require_own_sweep_files(const Path& out);

/// `text` behind a line, as a comment between `open` and `close`, with its checksum.
std::string sealed_sweep_file(const std::string& text, const char* open, const char* close);

}  // namespace ct
