#include "train/run/reset.h"

#include <algorithm>

#include "base/error.h"
#include "base/paths.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/store.h"
#include "train/config/foreign.h"
#include "train/run/run_files.h"

namespace ct {
namespace {

/// A real folder, not a link to one: what a link leads to is not ours to delete.
bool is_real_folder(const Path& path) { return kind_of_entry(path) == PathKind::folder; }

/// The files of a monitor in a folder and in those below it, of its jobs; and the folders where nothing else is left.
void remove_curves(FileSystem& files, const Path& folder, bool (*is_own)(const Path&)) {
  if (!is_real_folder(folder)) return;
  const auto remove_from = [&](const Path& place) {
    const auto is_ours = [&](const std::string& name) { return is_own(place / name); };
    if (std::ranges::any_of(list_folder(place), is_ours)) remove_known(files, place, is_ours);
  };
  for (const std::string& job : list_folder(folder))
    if (is_real_folder(folder / job)) remove_from(folder / job);
  remove_from(folder);
}

}  // namespace

void reset_run(FileSystem& files, const Path& out) {
  const auto names = list_folder(out);
  const Path ckpt = out / kCheckpointFolder;
  const auto checkpoints = is_real_folder(ckpt) ? list_folder(ckpt) : std::vector<std::string>{};
  const auto ours = [](const std::string& name) { return step_of(name) || is_scratch_name(name); };
  if (std::all_of(names.begin(), names.end(), [](const std::string& n) { return n == kLockName; })) return;
  if (!is_there(out / kMetricsFile) && std::none_of(checkpoints.begin(), checkpoints.end(), ours)) {
    fail(ExitCode::usage, "--reset: ", in_quotes(out.native()),
         " does not look like a run (no metrics.jsonl, no ckpt/step-...): empty it by hand or give another --output");
  }
  if (kind_of_entry(ckpt) == PathKind::link && is_folder(ckpt))
    fail(ExitCode::usage, "--reset: ", in_quotes(ckpt.native()),
         " is a link, and what it leads to is not deleted: empty that folder by hand, or give another --output");
  for (const std::string& name : checkpoints) {
    if (!ours(name) || !is_real_folder(ckpt / name)) continue;
    remove_known(files, ckpt / name, [](const std::string& n) {
      return is_part_name(n) || (n.starts_with(kTemporaryPrefix) && is_part_name(n.substr(kTemporaryPrefix.size())));
    });
  }
  if (is_real_folder(ckpt))
    remove_known(files, ckpt, [&](const std::string& n) {
      return n == kLatestFile || n == temporary_of(kLatestFile).native()
                 ? is_own_latest(ckpt / n)
                 : saved_best_step(n) && is_own_weights(ckpt / n);
    });
  remove_curves(files, out / kEventFolder, is_own_event_file);
  remove_curves(files, out / kCsvFolder, is_csv_series);
  // metrics.jsonl last: until then a reset that was killed can be repeated.
  for (const std::string& name : names) {
    if (is_run_file(name) && name != kMetricsFile && !is_real_folder(out / name)) remove_file(files, out / name);
  }
  remove_file(files, out / kMetricsFile);
}

}  // namespace ct
