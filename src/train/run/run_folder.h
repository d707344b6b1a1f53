// A run's folder: whether a run may start in it, the checkpoint to continue from, and the files to keep.
#pragma once

#include <optional>
#include <string>

#include "base/held_folder.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/store.h"
#include "comm/communicator.h"
#include "metrics/console.h"
#include "metrics/metrics_log.h"
#include "train/config/config.h"
#include "train/run/run_state.h"

namespace ct {

/// `--resume auto|must|never|PATH`
struct ResumeMode {
  enum Kind : uint8_t { automatic, must, never, path } kind = automatic;
  Path checkpoint;  // of kind path
};

/// Where a run would begin.
struct RunStart {
  Path checkpoint = {};    // to go on from; empty: a fresh run
  bool goes_back = false;  // it was named, and is the folder's own
  std::optional<Checkpoint> loaded = {};
  std::optional<Config> config = {};  // of the checkpoint, with all values set
};

/// A run's folder, on rank 0 only.
class RunFolder {
 public:
  /// What the constructor would choose or refuse, but for a folder that is in use. Changes nothing.
  static RunStart look(const Config& config, int ranks, const ResumeMode& resume, bool reset, Console& console);
  /// Locks the folder and selects the checkpoint to start from. It changes nothing else, and a folder that it created
  /// is removed again unless begin() is called. Throws if the folder is in use, contains files of others, contains a
  /// run with --resume never, has no valid checkpoint, or has another configuration.
  RunFolder(const Config& config, int ranks, const ResumeMode& resume, bool reset, Console& console);

  const Path& path() const { return out_; }
  /// In it even if it is moved, and another folder takes its name.
  FileSystem& files() { return files_; }
  /// The checkpoint to continue from; empty: a fresh run.
  const Path& resume_from() const { return resume_from_; }
  /// When resuming: Error(checkpoint) unless the images are those of the checkpoint; another device only causes a
  /// message.
  void require_same_origin(const Provenance& now, Console& console) const;
  /// The plans of the checkpoint that is resumed.
  std::string plans() const { return resumed_ ? resumed_->plans : ""; }
  /// The state of that checkpoint; of a fresh run, the beginning.
  const RunState& resumed_state() const { return resumed_state_; }
  /// The configuration of the resumed checkpoint, with all values set.
  const std::optional<Config>& resumed_config() const { return resumed_config_; }
  bool contains(int64_t step) const;
  /// The reason in the `end` record of a run that ended here at that step (kFinished, kStoppedEarly); empty: it did not
  /// end, or continues from there (kStopped, on request; kDiverged).
  std::string end_at(int64_t step) const;
  static constexpr const char *kFinished = "finished", *kStoppedEarly = "stopped early", *kStopped = "stopped",
                              *kDiverged = "diverged";

  /// Prepares the folder: deletes an earlier run if requested, writes config.yaml, and rewinds metrics to `resumed`
  /// (null: a new run, whose weights come from the options `init`, if not empty).
  void begin(const Config& config, int ranks, const RunState* resumed, const std::string& init, Console& console);

  /// The identity in the checkpoints: the resumed run's id, or a new one.
  const RunIdentity& identity() const { return identity_; }
  /// Throws Error(io) if the folder was moved, removed or replaced, or its lock removed, and Error(usage) if another
  /// run has taken it over; nothing may then be written.
  void require_in_place() const;
  bool is_in_place() const { return lock_.in_place(); }
  /// Keeps a copy of best.bin for the checkpoint of that step, before that checkpoint exists.
  void keep_best(int64_t step);
  /// Removes such copies of checkpoints that are gone or never were, and pieces.
  void remove_spare_best();
  /// Called after a checkpoint of that step was written: removes checkpoints beyond checkpoint.keep_last, and writes
  /// the newest one's name to ckpt/latest. Throws as require_in_place().
  void make_room(int64_t step);
  /// The newest checkpoint of a step before that one that verifies and whose weights and moments are all finite; empty:
  /// there is none.
  Path newest_finite(int64_t before) const;
  /// A warning if the checkpoint just written is not finite, once until one is finite again; otherwise empty.
  std::string news_of_not_finite(int64_t step);

 private:
  void warn_of_not_finite(const Checkpoint& checkpoint, Console& console);
  void name_latest();

  FileSystem system_;
  HeldFolder files_;
  Path out_;
  RunLock lock_;
  bool reset_;
  int64_t keep_last_;
  Path resume_from_;
  bool goes_back_ = false;  // --resume names a checkpoint of this folder
  std::optional<Provenance> resumed_;
  std::optional<Config> resumed_config_;
  RunState resumed_state_;
  RunIdentity identity_;
  bool not_finite_reported_ = false;
  std::unique_ptr<Store> store_;
};

/// Throws Error(io) on all ranks, with the host of the first such rank, unless every rank sees a file that rank 0
/// writes into `out` (created if necessary). Collective; the caller must have locked the folder.
void require_shared_folder(Communicator& comm, const Path& out);

}  // namespace ct
