#include "train/run/run_files.h"

#include <algorithm>
#include <array>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/utf8.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/store.h"
#include "data/folder_names.h"
#include "metrics/event_file.h"
#include "metrics/metrics_log.h"
#include "metrics/png.h"
#include "train/config/foreign.h"

namespace ct {
namespace {

constexpr std::array kRunFiles = {kConfigFile,  kMetricsTable,   kLastFile,       kBestFile,    kTokenFile,
                                  kMetricsFile, kSampleGridFile, kEvaluationFile, kPicturesFile};
constexpr std::string_view kSeal = "# as cifar-train wrote it, CRC32C ";
constexpr uint64_t kLongestHead = 65536, kLongestConfig = uint64_t{4} << 20;

/// Does a file of weights have this program's marks? They are looked for near the beginning, not by reading the header:
/// a damaged file of a run is still the run's.
bool has_marks(std::string_view weights) {
  const std::string_view head = weights.substr(0, kLongestHead);
  return head.find("\"header_crc32c\"") != std::string_view::npos ||
         head.find("\"cifar_train.model\"") != std::string_view::npos;
}

bool is_record_of_a_run(const Json& json) {
  constexpr std::array kEvents = {"start", "step", "epoch", "eval", "checkpoint", "end"};
  return json.is_object() && json.value("step", Json()).is_number_integer() &&
         std::ranges::find(kEvents, json.value("event", Json())) != kEvents.end();
}

bool has_records(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (is_record_of_a_run(record_in(line))) return true;
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return false;
}

/// A power failure may leave zeros.
bool is_token(std::string_view text) {
  constexpr std::string_view kKnown("0123456789abcdef-\0", 18);
  return text.find_first_not_of(kKnown) == std::string_view::npos;
}

bool is_own_picture(std::string_view png) { return is_png_by(png, kProgramName); }

/// Does a text begin so, or is it a piece of this beginning, of which a power failure has left no more?
bool begins_with(std::string_view text, std::string_view beginning) {
  return text.starts_with(beginning.substr(0, text.size()));
}

bool is_evaluation(std::string_view text) { return begins_with(text, kEvaluationBeginning); }

bool is_metrics_table(std::string_view text) { return begins_with(text, "event,step,"); }

/// A first record that a power failure has cut off is one, too.
bool is_metrics_file(std::string_view text) {
  return has_records(text) || (text.find('\n') == text.npos && begins_with(text, R"({"event":"start","step":)"));
}

/// An empty file holds nothing that could be lost.
bool is_own(const Path& path, bool (*accepts)(std::string_view)) {
  const PathKind kind = kind_of(path);
  if (kind == PathKind::nothing) return true;
  if (kind != PathKind::file) return false;
  const MappedFile file(path);
  const bool is_own = file.bytes().empty() || accepts(file.text());
  file.require_whole(ExitCode::io);
  return is_own;
}

bool is_latest(std::string_view text) { return text.ends_with('\n') && step_of(text.substr(0, text.size() - 1)); }

/// A file of a run, and how its writer knows it again.
struct RunFile {
  Path path;
  bool (*accepts)(std::string_view);
};

std::vector<RunFile> run_files(const Path& out) {
  std::vector<RunFile> files = {{out / kMetricsFile, is_metrics_file},
                                {out / kMetricsTable, is_metrics_table},
                                {out / kConfigFile, is_sealed_config},
                                {out / kLastFile, has_marks},
                                {out / kBestFile, has_marks},
                                {out / kTokenFile, is_token},
                                {out / kSampleGridFile, is_own_picture},
                                {out / kEvaluationFile, is_evaluation},
                                {out / kPicturesFile, is_own_picture}};
  const Path checkpoints = out / kCheckpointFolder;
  if (!is_folder(checkpoints)) return files;
  files.push_back({checkpoints / kLatestFile, is_latest});
  for (const std::string& name : list_folder(checkpoints))
    if (saved_best_step(name)) files.push_back({checkpoints / name, has_marks});
  return files;
}

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

bool is_own_latest(const Path& path) { return is_own(path, is_latest); }

bool is_own_token(const Path& path) {
  const PathKind kind = kind_of_entry(path);
  return kind == PathKind::nothing || (kind == PathKind::file && is_own(path, is_token));
}

void each_record(const Path& out, std::string_view event, const std::function<void(int64_t, const Json&)>& use) {
  const std::string name = str('"', event, '"');
  each_line(out / kMetricsFile, [&](std::string_view line, bool) {
    if (line.find(name) == line.npos) return;  // most are of steps, and are not worth parsing
    const Json record = record_in(line);
    if (!record.is_object() || record.value("event", Json()) != event) return;
    if (const Json step = record.value("step", Json()); step.is_number_integer()) use(step.get<int64_t>(), record);
  });
}

bool has_saved(const Path& out) {
  bool saved = false;
  if (is_there(out / kMetricsFile)) each_record(out, "checkpoint", [&](int64_t, const Json&) { saved = true; });
  return saved;
}

static_assert(is_picture_of_run(kSampleGridFile) && is_picture_of_run(kPicturesFile));

bool is_run_file(std::string_view name) {
  if (name.starts_with(kTemporaryPrefix)) name.remove_prefix(kTemporaryPrefix.size());
  return std::find(kRunFiles.begin(), kRunFiles.end(), name) != kRunFiles.end();
}

std::string event_writer(const Path& out) {
  return str(kProgramName, out.empty() ? "" : ", the run in " + printable(absolute_of(out).native()));
}

bool is_own_event_file(const Path& path) { return writer_of_events(path).starts_with(kProgramName); }

std::string sealed_config(const std::string& text) { return str(text, kSeal, crc_text(crc32c(text)), "\n"); }

bool is_sealed_config(std::string_view text) {
  if (text.size() > kLongestConfig) return false;
  const size_t seal = text.rfind(kSeal);
  return seal != std::string_view::npos &&
         text.substr(seal) == str(kSeal, crc_text(crc32c(text.substr(0, seal))), "\n");
}

bool holds_run(const Path& out) {
  FileSystem files;
  if (is_folder(out / kCheckpointFolder) && !Store(files, out / kCheckpointFolder, {}).list().empty()) return true;
  if (kind_of(out / kMetricsFile) != PathKind::file) return false;
  const MappedFile metrics(out / kMetricsFile);
  const bool holds = has_records(metrics.text());
  metrics.require_whole(ExitCode::io);
  return holds;
}

/// Ends with the remedy for what stands in the way of an output folder's files.
[[noreturn]] static void refuse_in_output(const Path& path, std::string_view why) {
  fail(ExitCode::usage, in_quotes(path.native()), " ", why, ": move it away, or give another --output");
}

void require_folder_or_nothing(const Path& folder) {
  for (Path at = folder; !at.empty() && !is_folder(at); at = at.parent_path()) {
    if (is_there(at)) refuse_in_output(at, "is no folder");
    if (kind_of_entry(at) == PathKind::link) refuse_in_output(at, "is a link to a folder that is not there");
  }
}

/// Checkpoints, whole or half saved, are known by their folders' names.
static bool is_checkpoint_name(const std::string& name) { return step_of(name) || is_scratch_name(name); }

/// Is `file`, whose last name is no link, one of a run in `out`?
static bool is_of_run(const Path& out, const Path& file) {
  const Path folder = file.parent_path(), ckpt = out / kCheckpointFolder;
  const std::string name = file.filename();
  if (same_place(folder, out)) return is_run_file(name);
  if (same_place(folder, ckpt)) return saved_best_step(name).has_value();
  return same_place(folder.parent_path(), ckpt) && is_checkpoint_name(folder.filename());
}

/// Is it a folder in which a run is or was, by its lock and its files?
static bool is_run_folder(const Path& folder) { return is_there(folder / kLockName) && holds_run(folder); }

/// Does a file, whose last name is no link, belong to the run in `out` or to another one?
static bool belongs_to_a_run(const Path& out, const Path& file) {
  const Path folder = file.parent_path();
  const std::string name = file.filename();
  return is_of_run(out, file) || is_there(folder / kManifestFile) ||
         (saved_best_step(name) && is_run_folder(folder.parent_path())) || (is_run_file(name) && is_run_folder(folder));
}

static std::vector<Path> written_files(const Path& out) {
  std::vector<Path> written = {out / kCheckpointFolder / kLatestFile};
  for (const std::string_view name : kRunFiles) written.push_back(out / name);
  for (const std::string& name : list_folder(out / kCheckpointFolder))
    if (saved_best_step(name)) written.push_back(out / kCheckpointFolder / name);
  return written;
}

void require_no_links_into_runs(const Path& out) {
  const auto refuse = [](const Path& link, const Path& target, std::string_view what) {
    fail(ExitCode::usage, in_quotes(link.native()), " is a link to ", in_quotes(target.native()), ", ", what,
         " and would change through it: put a copy in the place of the link, or remove it");
  };
  for (const Path& path : written_files(out)) {
    if (kind_of_entry(path) != PathKind::link) continue;
    if (const Path target = absolute_of(replaced_by_writing(path)); belongs_to_a_run(out, target))
      refuse(path, target, "which belongs to a run");
  }
  const Path ckpt = out / kCheckpointFolder;
  if (kind_of_entry(ckpt) != PathKind::link) return;
  const Path target = without_links(ckpt), other = target.parent_path();
  if (target.filename() == kCheckpointFolder && !same_place(other, out) && is_run_folder(other))
    refuse(ckpt, target, "which holds another run's checkpoints");
}

void require_own_files(const Path& out) {
  require_folder_or_nothing(out / kCheckpointFolder);
  require_no_links_into_runs(out);
  for (const Path& path : written_files(out)) {
    if (is_folder(path)) refuse_in_output(path, "is a folder, in whose place a run writes a file");
    if (is_real_folder(temporary_of(path)))
      refuse_in_output(temporary_of(path), "is a folder, in whose place a run writes a file");
    if (kind_of_entry(path) == PathKind::link && kind_of(path) == PathKind::nothing &&
        !is_folder(replaced_by_writing(path).parent_path()))
      refuse_in_output(path, "is a link into a folder that is not there");
  }
  if (holds_run(out)) return;
  for (const RunFile& file : run_files(out))
    if (!is_own(file.path, file.accepts))
      refuse_in_output(file.path, "was not written by this program, or was edited since, and a run would replace it");
  for (const std::string_view name : {kLastFile, kBestFile})
    if (is_there(out / name)) refuse_in_output(out / name, "is of another run, and this one would replace it");
}

std::vector<std::string> set_aside_foreign_files(FileSystem& files, const Path& out) {
  std::vector<std::string> warnings;
  if (!holds_run(out)) return warnings;
  for (const auto& [path, accepts] : run_files(out)) {
    if (is_own(path, accepts)) continue;
    const Path aside = free_name_for(path);
    rename_file(files, path, aside);
    warnings.push_back(str(in_quotes(path.native()), " was changed since the run wrote it: it is kept as ",
                           in_quotes(aside.filename().native())));
  }
  return warnings;
}

void require_resettable(const Path& out) {
  // A reset, or the start after it, that was killed leaves these, and perhaps no sign of a run.
  const auto may_be_left = [](const std::string& name) {
    return is_lock_name(name) || is_run_file(name) || name == kCheckpointFolder || name == kEventFolder ||
           name == kCsvFolder;
  };
  const Path ckpt = out / kCheckpointFolder;
  if (kind_of_entry(ckpt) == PathKind::link && is_folder(ckpt))
    fail(ExitCode::usage, "--reset: ", in_quotes(ckpt.native()),
         " is a link, whose target is not deleted: empty that folder by hand, or give another --output");
  const auto names = list_folder(out);
  const auto is_ours = [](const RunFile& file) { return is_own(file.path, file.accepts); };
  if (std::ranges::all_of(names, may_be_left) && std::ranges::all_of(run_files(out), is_ours)) return;
  const auto checkpoints = is_real_folder(ckpt) ? list_folder(ckpt) : std::vector<std::string>{};
  if (!is_there(out / kMetricsFile) && std::none_of(checkpoints.begin(), checkpoints.end(), is_checkpoint_name))
    fail(ExitCode::usage, "--reset: ", in_quotes(out.native()),
         " does not look like a run (no metrics.jsonl, no ckpt/step-...): empty it by hand or give another --output");
}

bool reset_deletes(const Path& out, const Path& file) {
  return is_of_run(out, absolute_of(replaced_by_writing(file))) || is_of_run(out, without_links(file));
}

void reset_run(FileSystem& files, const Path& out) {
  require_resettable(out);
  const auto names = list_folder(out);
  const Path ckpt = out / kCheckpointFolder;
  const auto checkpoints = is_real_folder(ckpt) ? list_folder(ckpt) : std::vector<std::string>{};
  for (const std::string& name : checkpoints) {
    const PathKind kind = kind_of_entry(ckpt / name);
    if (!is_checkpoint_name(name) || (kind != PathKind::folder && kind != PathKind::link)) continue;
    remove_known(files, ckpt / name, is_saved_name);
  }
  if (is_real_folder(ckpt))
    remove_known(files, ckpt, [&](const std::string& n) {
      return n == kLatestFile || n == temporary_of(kLatestFile).native()
                 ? is_own_latest(ckpt / n)
                 : saved_best_step(n) && is_own_weights(ckpt / n);
    });
  remove_curves(files, out / kEventFolder, is_own_event_file);
  remove_curves(files, out / kCsvFolder, is_csv_series);
  // metrics.jsonl last, so that the folder shows until then that it holds a run.
  for (const std::string& name : names) {
    const bool stays = name == kMetricsFile || name == kConfigFile;
    if (is_run_file(name) && !stays && !is_real_folder(out / name)) remove_file(files, out / name);
  }
  remove_file(files, out / kMetricsFile);
}

bool is_own_weights(const Path& path) { return is_own(path, has_marks); }

void require_folder_of(const Path& path, std::string_view option) {
  const Path folder = path.parent_path();
  if (folder.empty() || is_folder(folder)) return;
  const std::string name = in_quotes(folder.native());
  fail(ExitCode::usage, option, " ", in_quotes(path.native()), ": ",
       is_there(folder) ? name + " is no folder: give another file"
                        : "there is no folder " + name + ": create it, or give another file");
}

void require_name_of_file(const Path& path, std::string_view option) {
  if (path == "-")
    fail(ExitCode::usage, option,
         " - names no file: give /dev/stdout for standard output, or ./- for a file of this name");
  if (is_folder(path) || !path.has_filename())
    fail(ExitCode::usage, option, " ", in_quotes(path.native()), " names no file: give the path of the file to write");
  require_folder_of(path, option);
}

void require_replaceable(const Path& path, bool (*accepts)(std::string_view), std::string_view option) {
  if (kind_of(path) == PathKind::other) return;
  require_name_of_file(path, option);
  const Path replaced = replaced_by_writing(path), folder = replaced.parent_path();
  const std::string name = replaced.filename();
  if (is_there(folder / kManifestFile) || saved_best_step(name) ||
      ((is_run_file(name) || is_lock_name(name)) && holds_run(folder)))
    fail(ExitCode::usage, in_quotes(path.native()), " belongs to a run and must not change: give another ", option);
  if (!is_own(path, accepts))
    fail(ExitCode::usage, in_quotes(path.native()),
         " was not written by this program as a file of this kind, or was edited since: give another ", option,
         ", or remove it first");
}

void require_replaceable_weights(const Path& path) { require_replaceable(path, has_marks); }

}  // namespace ct
