// The files of a run's folder beside its checkpoints, by name; and whether this program wrote what lies there.
#pragma once

#include <string>
#include <string_view>

#include "base/files.h"

namespace ct {

inline constexpr std::string_view kConfigFile = "config.yaml", kMetricsFile = "metrics.jsonl",
                                  kMetricsTable = "metrics.csv", kLastFile = "last.bin", kBestFile = "best.bin",
                                  kCheckpointFolder = "ckpt";
/// What rank 0 writes into a run's folder at the start and removes again.
inline constexpr std::string_view kTokenFile = ".shared-by-all-ranks";

/// Is it a name of the run's own, or of a temporary file for one?
bool is_run_file(std::string_view name);

/// config.yaml ends in a line with the checksum of the text before it, by which its writer knows it again.
std::string sealed_config(const std::string& text);

/// Does `out` hold a run of this program: a checkpoint, or records in metrics.jsonl?
bool holds_run(const Path& out);

/// Error(usage) naming the first file that a run in `out` would replace and that no run wrote: weights without this
/// program's marks, a configuration or records that are somebody's own or were edited, and, where there is no run yet,
/// any weights at all.
void require_own_files(const Path& out);

/// Error(usage) unless `path` is free, a device or pipe, or holds weights that this program wrote.
void require_own_weights(const Path& path);

}  // namespace ct
