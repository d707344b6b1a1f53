// A run's folder: who may start in it, what it continues from, what stays in it.
#pragma once

#include <optional>
#include <string>

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

/// A run's folder, on rank 0 only.
class RunFolder {
 public:
  /// Locks the folder and decides where to start from; nothing is changed yet, and a folder that was made goes again
  /// if begin() is never reached. Throws where it may not: in use, files of somebody else in the way, present against
  /// --resume never, nothing that verifies, another configuration.
  RunFolder(const Config& config, int ranks, const ResumeMode& resume, bool reset, Console& console);

  const Path& path() const { return out_; }
  FileSystem& files() { return files_; }
  /// The checkpoint to continue from; empty: a fresh run.
  const Path& resume_from() const { return resume_from_; }
  /// When resuming: Error(checkpoint) unless the images are those of the checkpoint; another device is only told.
  void require_same_origin(const Provenance& now, Console& console) const;
  /// The plans of the checkpoint that is resumed.
  std::string plans() const { return resumed_ ? resumed_->plans : ""; }
  /// The configuration of the checkpoint that is resumed; nothing in it is left to the program.
  const std::optional<Config>& resumed_config() const { return resumed_config_; }
  bool contains(int64_t step) const;
  /// Why a run ended here at that step, by its `end` record (kFinished, kStoppedEarly); empty: it did not, or goes on
  /// from there (kStopped, on request).
  std::string end_at(int64_t step) const;
  static constexpr const char *kFinished = "finished", *kStoppedEarly = "stopped early", *kStopped = "stopped";

  /// Takes the folder into use: an earlier run is forgotten if that was asked; config.yaml is written; metrics go back
  /// to what they were at `resumed` (null: a fresh run, whose weights came as the options `init` say if not empty).
  void begin(const Config& config, int ranks, const RunState* resumed, const std::string& init, Console& console);

  /// Who the checkpoints say they belong to: a resumed run's id, or a new one.
  const RunIdentity& identity() const { return identity_; }
  /// Error(io) where another folder or none has the folder's name, or the lock was removed: nothing may be written
  /// then.
  void require_in_place() const;
  /// Keeps best.bin as it is now beside the checkpoint of that step, before that exists.
  void keep_best(int64_t step);
  /// After a checkpoint of that step was written: removes those that checkpoint.keep_last gives no place any more, and
  /// names the newest one in ckpt/latest.
  void make_room(int64_t step);
  /// The newest checkpoint that verifies and whose weights and moments are all finite; empty: there is none.
  Path newest_finite() const;
  /// What to tell of a checkpoint just written that is not finite, once until one is finite again; empty: nothing.
  std::string news_of_not_finite(int64_t step);

 private:
  void warn_of_not_finite(const Checkpoint& checkpoint, Console& console);
  void remove_spare_best();
  void name_latest();

  FileSystem files_;
  Path out_;
  RunLock lock_;
  bool reset_;
  int keep_last_;
  Path resume_from_;
  bool goes_back_ = false;  // to a checkpoint of this folder that was named
  std::optional<Provenance> resumed_;
  std::optional<Config> resumed_config_;
  RunIdentity identity_;
  bool not_finite_told_ = false;
  std::unique_ptr<Store> store_;
};

/// Unless every rank sees what rank 0 writes into `out` (made if need be): Error(io) on all ranks, naming the first
/// rank's host that does not. Collective; for whoever has locked the folder.
void require_shared_folder(Communicator& comm, const Path& out);

}  // namespace ct
