// The files of a run's folder beside its checkpoints, by name; and whether this program wrote what lies there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace ct {

inline constexpr std::string_view kConfigFile = "config.yaml", kMetricsFile = "metrics.jsonl",
                                  kMetricsTable = "metrics.csv", kLastFile = "last.bin", kBestFile = "best.bin",
                                  kCheckpointFolder = "ckpt";
/// Where train.sample_grid asks for it; its writer is named in it.
inline constexpr std::string_view kSampleGridFile = "sample_grid.png", kProgramName = "cifar-train";
/// Of a sweep, whose folder is no run's.
inline constexpr std::string_view kSweepRecords = "sweep.jsonl";
/// In the folder of checkpoints: the newest one's name, as DeepSpeed has its tag there.
inline constexpr std::string_view kLatestFile = "latest";
/// Nothing, or such a file of this program.
bool is_own_latest(const Path& path);
/// What rank 0 writes into a run's folder at the start and removes again.
inline constexpr std::string_view kTokenFile = ".shared-by-all-ranks";

/// Where event files for TensorBoard lie, unless the configuration has another place for them.
inline constexpr std::string_view kEventFolder = "tb";
/// Where the files of csv_monitor lie, likewise.
inline constexpr std::string_view kCsvFolder = "csv";
/// What event files name as their writer: the program, and in a folder that others may use too the run, in `out`.
std::string event_writer(const Path& out = {});
/// Did this program write the event file at `path`, for whichever run?
bool is_own_event_file(const Path& path);

/// Is it a name of the run's own, or of a temporary file for one?
bool is_run_file(std::string_view name);

/// config.yaml ends in a line with the checksum of the text before it, by which its writer knows it again.
std::string sealed_config(const std::string& text);

/// Does `out` hold a run of this program: a checkpoint, or records in metrics.jsonl?
bool holds_run(const Path& out);

/// A folder that holds no run yet: Error(usage) naming the first file that a run would replace and that is not of its
/// making: weights of whomever, a configuration, records or a table without this program's marks.
void require_own_files(const Path& out);

/// A folder that holds a run: such files there (a configuration that was edited, weights that are damaged beyond
/// recognition) keep their contents under another name. Returns a line to warn with for each.
std::vector<std::string> set_aside_foreign_files(FileSystem& files, const Path& out);

/// Forgets a run: deletes the files that this program wrote, by their fixed names, and the folders emptied by that;
/// OUT, its .lock and everything else stay. A folder with other contents and no sign of a run (neither metrics.jsonl
/// nor ckpt/step-…) is Error(ExitCode::usage). The caller holds the RunLock.
void reset_run(FileSystem& files, const Path& out);

/// Nothing, or weights with this program's marks, damaged or not.
bool is_own_weights(const Path& path);

/// Error(usage) unless a file of weights that somebody asks for may be written: `path` is free, a device or pipe, or
/// holds weights that this program wrote and no run needs.
void require_replaceable_weights(const Path& path);

}  // namespace ct
