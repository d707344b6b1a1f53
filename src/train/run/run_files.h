// The names of a run's files outside its checkpoints, and checks whether this program wrote existing files.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "metrics/metrics_log.h"

namespace ct {

inline constexpr std::string_view kConfigFile = "config.yaml", kMetricsFile = "metrics.jsonl",
                                  kMetricsTable = "metrics.csv", kLastFile = "last.bin", kBestFile = "best.bin",
                                  kCheckpointFolder = "ckpt";
/// The file of train.sample_grid, and its writer.
inline constexpr std::string_view kSampleGridFile = "sample_grid.png", kProgramName = "cifar-train";
/// What the evaluation at a run's end found (train/run/evaluation_files.h), and its sheet of pictures.
inline constexpr std::string_view kEvaluationFile = "evaluation.json", kPicturesFile = "evaluation.png";
/// How the former begins.
inline constexpr std::string_view kEvaluationBeginning = "{\"format\":\"cifar-train evaluation 1\",";
/// The records of a sweep, whose folder is not a run's.
inline constexpr std::string_view kSweepRecords = "sweep.jsonl";
/// In the folder of checkpoints: the name of the newest one, like DeepSpeed's tag.
inline constexpr std::string_view kLatestFile = "latest";
/// Is there no file, or such a file of this program?
bool is_own_latest(const Path& path);
/// The file that rank 0 writes into a run's folder at the start and then removes.
inline constexpr std::string_view kTokenFile = ".shared-by-all-ranks";
/// Is there nothing, or such a file of this program?
bool is_own_token(const Path& path);

/// The default folder of TensorBoard's event files.
inline constexpr std::string_view kEventFolder = "tb";
/// The default folder of csv_monitor's files.
inline constexpr std::string_view kCsvFolder = "csv";
/// The writer in event files: the program, and, in a folder that other runs may share, the run in `out`.
std::string event_writer(const Path& out = {});
/// Did this program write the event file at `path`, for any run?
bool is_own_event_file(const Path& path);

/// Is it the name of a run's file, or of a temporary file for one?
bool is_run_file(std::string_view name);

/// config.yaml ends in a line with the checksum of the preceding text, by which the program recognises it.
std::string sealed_config(const std::string& text);
bool is_sealed_config(std::string_view text);

/// Does `out` contain a run of this program, that is, a checkpoint, or records in metrics.jsonl?
bool holds_run(const Path& out);

/// use(step, record) for the records of an event in metrics.jsonl, which must be there; other lines are left out.
void each_record(const Path& out, std::string_view event, const std::function<void(int64_t, const Json&)>& use);
/// Do its records tell of a checkpoint?
bool has_saved(const Path& out);

/// Throws Error(usage) if an output folder, or one that it must lie in, is there as a file.
void require_folder_or_nothing(const Path& folder);

/// Throws Error(usage) with the first of a run's files, or its folder of checkpoints, that is a link to what this run
/// or another one has under a name of its own: through the link, one run would replace or delete what the other needs.
void require_no_links_into_runs(const Path& out);

/// Throws Error(usage) with the first folder in the place of a run's file or of a temporary one for it. For a folder
/// without a run also with the first file that a run would replace and that no run wrote: any weights, or a
/// configuration, records or a table without this program's marks. Throws as require_no_links_into_runs().
void require_own_files(const Path& out);

/// For a folder with a run: renames such files (an edited configuration, weights damaged beyond recognition), so that
/// their contents are kept. Returns a warning for each.
std::vector<std::string> set_aside_foreign_files(FileSystem& files, const Path& out);

/// A folder with other contents than a run's and no sign of a run (neither metrics.jsonl nor ckpt/step-…) is
/// Error(ExitCode::usage), and so is one whose ckpt is a link.
void require_resettable(const Path& out);

/// Would reset_run() delete `file`, or the link of that name?
bool reset_deletes(const Path& out, const Path& file);

/// Deletes a run: the files that this program wrote, by their fixed names, and folders that become empty; OUT, its
/// .lock, config.yaml, which the command may name and the new run replaces, and all other files remain. Throws as
/// require_resettable(). The caller must hold the RunLock.
void reset_run(FileSystem& files, const Path& out);

/// Is there no file, or weights with this program's marks, damaged or not?
bool is_own_weights(const Path& path);

/// Throws Error(usage) unless the folder of the file that an option names exists.
void require_folder_of(const Path& path, std::string_view option);
/// The same for a path that names no file: "-", a folder, or one that ends in "/".
void require_name_of_file(const Path& path, std::string_view option);
/// Throws Error(usage) unless a file may be written to `path`: it does not exist, is a device or pipe, or is empty or
/// of this program, which `is_own` decides by its content, and no run needs it. `option` is for the message.
void require_replaceable(const Path& path, bool (*is_own)(std::string_view content), std::string_view option = "--out");
/// The same for a weights file.
void require_replaceable_weights(const Path& path);

}  // namespace ct
