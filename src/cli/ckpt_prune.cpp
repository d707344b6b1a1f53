// cifar-train ckpt prune: removes a run's older checkpoints by the rule by which a run does.
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/paths.h"
#include "base/terminal.h"
#include "base/text.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/second_try.h"
#include "checkpoint/store.h"
#include "cli/subverbs.h"
#include "train/run/best_weights.h"
#include "train/run/run_files.h"
#include "train/weights.h"

namespace ct {
namespace {

enum class Weights { undamaged, damaged, unreadable };

Weights look_at(const Path& weights) try {
  return with_second_try([&] {
    const SafetensorsFile file(weights);
    return Weights::undamaged;
  });
} catch (const Error& error) {
  if (error.code() == ExitCode::memory) throw;
  if (error.code() != ExitCode::io) return Weights::damaged;
  warn(error.what());
  return Weights::unreadable;
}

/// Where best.bin is lost, the newest checkpoint with an undamaged copy, from which the run would restore it, and those
/// of later copies that cannot be read now.
std::vector<int64_t> holders_of_best(const Path& run, const Store& store) {
  std::vector<int64_t> holders;
  if (look_at(run / kBestFile) == Weights::undamaged) return holders;
  const std::vector<int64_t> steps = store.list();
  for (size_t i = steps.size(); i-- > 0;) {
    const Weights copy = look_at(run / kCheckpointFolder / saved_best_name(steps[i]));
    if (copy != Weights::damaged) holders.push_back(steps[i]);
    if (copy == Weights::undamaged) break;
  }
  return holders;
}

/// The bytes that the disk gets back for these checkpoints: a file counts where the last of its names goes.
uint64_t bytes_freed(const Path& run, const Store& store, const std::vector<int64_t>& steps) {
  std::map<std::pair<dev_t, ino_t>, nlink_t> names;
  uint64_t bytes = 0;
  const auto add = [&](const Path& file) {
    struct stat info {};
    if (lstat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
    if (++names[{info.st_dev, info.st_ino}] == info.st_nlink) bytes += static_cast<uint64_t>(info.st_size);
  };
  for (const int64_t step : steps) {
    add(run / kCheckpointFolder / saved_best_name(step));
    const Path folder = store.path_of(step);
    if (kind_of_entry(folder) != PathKind::folder) continue;  // of a link only the link goes
    for (const std::string& name : list_folder(folder)) add(folder / name);
  }
  return bytes;
}

}  // namespace

int ckpt_prune(const Words& words) {
  CLI::App app(
      "Removes all but the newest checkpoints of a run that is not going on. The newest valid one stays, also the "
      "newest one whose tensors are all finite, and what best.bin may have to be restored from.",
      "cifar-train ckpt prune");
  std::string word;
  std::optional<int64_t> keep;
  bool dry_run = false;
  app.add_option("RUN", word, "a run's output folder")->type_name("FOLDER")->required();
  app.add_option("--keep", keep, "the number of the newest that stay (default: the run's checkpoint.keep_last)")
      ->check(CLI::Range(1, 1000000));
  app.add_flag("--dry-run", dry_run, "say what would go; remove nothing");
  if (!parse(app, words)) return 0;

  const Path run = Path(word).has_filename() ? Path(word) : Path(word).parent_path();
  if (!holds_run(run))
    fail(ExitCode::usage, in_quotes(run.native()), " holds no run: give the folder of one (its --output)");
  require_no_links_into_runs(run);
  FileSystem files;
  std::optional<RunLock> lock;
  if (!dry_run) lock.emplace(files, run, RunLock::Wait{.say = warn, .otherwise = "only look at it with --dry-run"});
  Store store(files, run / kCheckpointFolder, {}, require_resumable);
  if (!dry_run) store.recover(warn);
  const auto good = store.newest_good(warn);
  if (!good) fail(ExitCode::checkpoint, in_quotes(run.native()), " holds no checkpoint; there is nothing to remove");
  if (!keep) keep = saved_config(store.load(*good)).checkpoint.keep_last;

  std::vector<int64_t> steps = store.beyond(*keep, good, warn);
  if (!steps.empty())
    for (const int64_t holder : holders_of_best(run, store)) std::erase(steps, holder);
  const uint64_t bytes = bytes_freed(run, store, steps);
  for (const int64_t step : steps) print_line(store.path_of(step).native());
  const size_t all = store.list().size();
  if (!dry_run) {
    store.remove(steps);
    remove_spare_best(files, run, store);
  }
  std::printf("%zu of %zu checkpoints %s, %llu bytes (%s)\n", steps.size(), all, dry_run ? "would go" : "removed",
              static_cast<unsigned long long>(bytes), human_bytes(bytes).c_str());
  return 0;
}

}  // namespace ct
