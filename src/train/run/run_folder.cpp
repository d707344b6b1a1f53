#include "train/run/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "comm/all_ranks.h"
#include "train/config/print.h"
#include "train/config/resume.h"
#include "train/run/best_weights.h"
#include "train/run/run_files.h"
#include "train/signals.h"
#include "train/weights.h"

namespace ct {
namespace {

constexpr int kLooks = 10;
constexpr std::chrono::milliseconds kBetweenLooks{200};

std::string new_run_id() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::ostringstream id;
  id << std::hex << std::chrono::duration_cast<std::chrono::microseconds>(now).count() << "-" << std::dec << getpid();
  return id.str();
}

/// `out`, once nothing in it stands in the way of a run.
const Path& without_foreign_files(const Path& out) {
  require_own_files(out);
  if (!holds_run(out) && is_there(out / kSweepRecords))
    fail(ExitCode::usage, "output folder ", in_quotes(out.native()), " holds a sweep: give the run another --output");
  return out;
}

/// See RunFolder::look().
RunStart find_start(const Config& config, int ranks, const ResumeMode& resume, bool reset, const Store& store,
                    Console& console) {
  const Path out = config.output, folder = out / kCheckpointFolder;
  RunStart start;
  const bool present = !reset && holds_run(out);
  if (reset && resume.kind == ResumeMode::must)
    fail(ExitCode::usage, "--reset would delete the run that --resume must requires: give only one of them");
  if (present && resume.kind == ResumeMode::never)
    fail(ExitCode::usage, "output folder ", in_quotes(out.native()),
         " holds a run, which --resume never refuses: add --reset to delete it, or give another --output");
  if (resume.kind == ResumeMode::path) {
    start.checkpoint = resume.checkpoint;
    if (!is_there(start.checkpoint / "manifest.json", ExitCode::checkpoint))
      fail(ExitCode::checkpoint, "--resume ", in_quotes(start.checkpoint.native()),
           ": not a checkpoint; give the folder of one, such as RUN/ckpt/step-00000120");
    if (reset && reset_deletes(out, start.checkpoint / kManifestFile))
      fail(ExitCode::usage, "--reset would delete ", in_quotes(start.checkpoint.native()),
           ", which --resume names: leave --reset out");
    const Path real = without_links(start.checkpoint);
    start.goes_back = same_place(start.checkpoint.parent_path(), folder);
    if (!start.goes_back && same_place(real.parent_path(), folder)) {  // by another name
      start.checkpoint = folder / real.filename();
      start.goes_back = true;
    }
    if (present && !start.goes_back)
      fail(ExitCode::usage, "output folder ", in_quotes(out.native()), " holds a run, of which ",
           in_quotes(start.checkpoint.native()),
           " is no checkpoint: leave --resume out to continue that run, or give another --output");
  } else if (resume.kind != ResumeMode::never && !reset) {
    const auto step = store.newest_good([&](const std::string& problem) { console.note("warning: " + problem); });
    if (step) start.checkpoint = folder / store.path_of(*step).filename();  // by name: other ranks read it too
    if (!step && resume.kind == ResumeMode::must)
      fail(ExitCode::checkpoint, "--resume must: there is no checkpoint in ", in_quotes(folder.native()),
           "; leave --resume out to start a new run");
    if (!step && present && has_saved(out))
      fail(ExitCode::checkpoint, "the run in ", in_quotes(out.native()), " has saved, but its checkpoints in ",
           in_quotes(folder.native()), " are gone: restore one, or start a new run with --reset or another --output");
    if (!step && present) console.note("the run in " + out.string() + " has no checkpoint yet; the run starts over");
  }

  if (start.checkpoint.empty()) return start;
  start.loaded = load_checkpoint(start.checkpoint, RunIdentity{"", config.model.name});
  const Provenance resumed = provenance_from(start.loaded->state, start.loaded->state_path());
  require_state(*start.loaded);
  start.config = saved_config(*start.loaded);
  const Config& saved = *start.config;
  Config now = config;
  settle_like(now, saved);
  const ResumeDifference difference = resume_difference(saved, resumed.ranks, now, ranks);
  if (!difference.forbidden.empty()) {
    const std::string keys = joined(difference.forbidden, "; ");
    if (resume.kind == ResumeMode::path && !start.goes_back)
      fail(ExitCode::checkpoint, "--resume ", in_quotes(start.checkpoint.native()),
           " was written with a different configuration (", keys,
           "): restore these keys, or begin with its weights: --init ",
           in_quotes((start.checkpoint / kWeightsFile).native()));
    fail(ExitCode::checkpoint, "the run in ", in_quotes(out.native()), " was started with a different configuration (",
         keys, "): restore these keys, or start a new run with --reset or another --output");
  }
  for (const std::string& warning : difference.warnings) console.note("warning: " + warning);
  return start;
}

}  // namespace

RunFolder::RunFolder(const Config& config, int ranks, const ResumeMode& resume, bool reset, Console& console)
    : out_(config.output),
      lock_(system_, without_foreign_files(out_),
            {.heartbeat = HolderFile::Seconds(config.communication.supervision.heartbeat_s),
             .say = [&](const std::string& line) { console.note("warning: " + line); },
             .give_up = [] { return StopSignals::requested() != 0; }}),
      reset_(reset),
      keep_last_(config.checkpoint.keep_last) {
  files_.hold(out_);
  require_in_place();
  const Path folder = out_ / kCheckpointFolder;
  store_ = std::make_unique<Store>(files_, folder, RunIdentity{"", config.model.name}, require_resumable);
  store_->recover([&](const std::string& problem) { console.note("warning: " + problem); });

  const RunStart start = find_start(config, ranks, resume, reset, *store_, console);
  resume_from_ = start.checkpoint;
  goes_back_ = start.goes_back;
  resumed_config_ = start.config;
  identity_ = {new_run_id(), config.model.name};
  if (!start.loaded) return;
  warn_of_not_finite(*start.loaded, console);
  identity_.run = start.loaded->manifest.identity.run;
  resumed_ = provenance_from(start.loaded->state, start.loaded->state_path());
  resumed_state_ = run_state_from(start.loaded->state, start.loaded->state_path());
}

RunStart RunFolder::look(const Config& config, int ranks, const ResumeMode& resume, bool reset, Console& console) {
  FileSystem files;
  const Store store(files, without_foreign_files(config.output) / kCheckpointFolder, RunIdentity{"", config.model.name},
                    require_resumable);
  return find_start(config, ranks, resume, reset, store, console);
}

void RunFolder::require_same_origin(const Provenance& now, Console& console) const {
  if (!resumed_) return;
  const bool trained = resumed_->dataset != now.dataset || resumed_->data_crc != now.data_crc;
  if (trained || resumed_->test_data_crc != now.test_data_crc)
    fail(ExitCode::checkpoint, "the run was ", trained ? "trained" : "evaluated", " on different images (",
         resumed_->dataset, ") from those that data.path leads to now (", now.dataset,
         "): restore files that changed since, set data.path to the same data, or start a new run");
  if (resumed_->device != now.device)
    console.note("warning: the checkpoint was made on another device or library (" + resumed_->device +
                 "): the bits may differ from an uninterrupted run's");
}

bool RunFolder::contains(int64_t step) const {
  const auto steps = store_->list();
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

std::string RunFolder::end_at(int64_t step) const {
  if (!is_there(out_ / kMetricsFile)) return "";
  std::string reason;
  each_record(out_, "end", [&](int64_t at, const Json& record) {
    const auto why = record.find("reason");
    reason = at == step && why != record.end() && why->is_string() ? why->get<std::string>() : "";
  });
  return reason == kStopped || reason == kDiverged ? "" : reason;
}

void RunFolder::begin(const Config& config, int ranks, const RunState* resumed, const std::string& init,
                      Console& console) {
  lock_.keep();
  if (reset_) require_resettable(out_);
  for (const std::string& warning : set_aside_foreign_files(files_, out_)) console.note("warning: " + warning);
  if (reset_) reset_run(files_, out_);
  remove_spare_best();
  const std::string started = init.empty() ? "" : "# started with " + init + "\n";
  write_file_atomic(files_, out_ / kConfigFile, sealed_config(started + to_yaml(config, {.ranks = ranks})));
  constexpr int64_t kBeforeAll = -1;  // a run without a checkpoint in this folder starts anew, and so do its records
  const bool goes_on = resumed != nullptr && same_place(resume_from_.parent_path(), out_ / kCheckpointFolder);
  const int64_t step = goes_on ? resumed->step : kBeforeAll;
  if (const std::string lost = MetricsLog::rewind(files_, out_, step); !lost.empty()) console.note("warning: " + lost);
  // Going on from an earlier checkpoint of this folder by its path gives up those after it.
  if (resumed != nullptr && goes_back_) store_->forget_after(resumed->step);
  for (const std::string_view name : {kEvaluationFile, kPicturesFile}) remove_file(files_, out_ / name);  // of an end
  if (resumed != nullptr) name_latest();
}

void RunFolder::keep_best(int64_t step) {
  const Path best = out_ / kBestFile, folder = out_ / kCheckpointFolder;
  if (!is_there(best)) return;
  make_folders(files_, folder);
  link_or_copy(files_, best, folder / saved_best_name(step));
}

void RunFolder::require_in_place() const {
  if (lock_.in_place()) return;
  if (const std::string other = lock_.taken_by(); !other.empty())
    fail(ExitCode::usage, "output folder ", in_quotes(out_.native()), " was taken over by ", in_quotes(other),
         ", because this run gave no sign of life: nothing more is written; to continue it, start again once the other "
         "has ended");
  if (lock_.name() == kHolderName)
    fail(ExitCode::io, in_quotes((out_ / kHolderName).native()),
         " was removed or replaced while the run was using it: nothing more is written; start again to continue");
  fail(ExitCode::io, "output folder ", in_quotes(out_.native()), ", or its ", kLockName,
       ", was moved, removed or replaced while the run was using it: put it back, or start again with another "
       "--output");
}

void RunFolder::make_room(int64_t step) {
  require_in_place();  // else the names of another run's checkpoints would choose which of this one's go
  name_latest();
  store_->prune(keep_last_, step);
  remove_spare_best();
}

/// For people and scripts, as DeepSpeed does: the program itself takes the newest checkpoint that verifies.
void RunFolder::name_latest() {
  const Path latest = out_ / kCheckpointFolder / kLatestFile;
  const auto steps = store_->list();
  if (steps.empty() || !is_own_latest(latest)) return;
  write_file_atomic(files_, latest, step_name(steps.back()) + "\n");
}

Path RunFolder::newest_finite(int64_t before) const {
  const auto step = store_->newest_finite({}, before);
  return step ? out_ / kCheckpointFolder / step_name(*step) : Path();
}

std::string RunFolder::news_of_not_finite(int64_t step) {
  const std::string text = not_finite_text(store_->manifest(step).not_finite);
  const bool reported = std::exchange(not_finite_reported_, !text.empty());
  if (text.empty() || reported) return "";
  const auto finite = store_->newest_finite(step);
  return str("the checkpoint of step ", step, " is saved, but ", text,
             finite ? str("; the newest finite one, that of step ", *finite, ", stays") : "");
}

void RunFolder::warn_of_not_finite(const Checkpoint& checkpoint, Console& console) {
  const std::string text = not_finite_text(checkpoint.manifest.not_finite);
  if (text.empty()) return;
  not_finite_reported_ = true;
  const Store source(files_, resume_from_.parent_path(), {});
  const auto finite = source.newest_finite();
  console.note(str(
      "warning: ", in_quotes(resume_from_.native()), ": ", text, "; ",
      finite ? str("to go back to the newest finite checkpoint: --resume ", in_quotes(source.path_of(*finite).native()))
             : std::string("no other checkpoint is finite")));
}

void RunFolder::remove_spare_best() { ct::remove_spare_best(files_, out_, *store_); }

void require_shared_folder(Communicator& comm, const Path& out) {
  if (comm.size() == 1) return;
  const Path token = out / kTokenFile;
  FileSystem files;
  const std::string text = from_rank_0(comm, new_run_id());
  run_on_all_ranks(comm, [&] {
    if (comm.rank() != 0) return;
    make_folders(files, out);
    if (!is_own_token(token))
      fail(ExitCode::usage, in_quotes(token.native()), " is no run's: move it away, or give another --output");
    if (is_there(token)) remove_file(files, token);
    File file(files, token, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    file.write(text);
    file.close();
  });
  std::optional<Error> unseen;
  try {
    run_on_all_ranks(comm, [&] {
      for (int attempt = 0; attempt < kLooks; ++attempt) {
        if (attempt > 0)
          std::this_thread::sleep_for(kBetweenLooks);  // network file systems remember what was not there
        if (is_there(token) && read_file(token) == text) return;
      }
      fail(ExitCode::io, "output folder ", in_quotes(absolute_of(out).native()),
           " is not the one that rank 0 writes to: set output to a folder on a file system that all hosts share");
    });
  } catch (const Error& error) {
    unseen = error;
  }
  // All have looked.
  if (comm.rank() == 0) uninterrupted([&] { return files.unlink(token); });
  if (unseen) throw Error(*unseen);
}

}  // namespace ct
