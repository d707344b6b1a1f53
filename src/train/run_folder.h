// A run's folder: who may start in it, what it continues from, what is written where. Rank 0 only.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/run_lock.h"
#include "metrics/console.h"
#include "train/checkpoint.h"

namespace ct {

/// `--resume auto|must|never|PATH`
struct ResumeMode {
  enum Kind : uint8_t { automatic, must, never, path } kind = automatic;
  Path checkpoint;  // of kind path
};

class RunFolder {
 public:
  /// Locks the folder and decides where to start from; nothing is changed yet. Throws where it may not:
  /// in use, present against --resume never, nothing that verifies, another configuration.
  RunFolder(const Config& config, int ranks, const ResumeMode& resume, bool reset, Console& console);

  const Path& path() const { return out_; }
  FileSystem& files() { return files_; }
  /// The checkpoint to continue from; empty: a fresh run.
  const Path& resume_from() const { return resume_from_; }
  /// When resuming: Error(checkpoint) unless the images are those of the checkpoint; another device is only told.
  void require_same_origin(const Provenance& now, Console& console) const;
  bool contains(int64_t step) const;
  /// Why a run ended here at that step, by its `end` record (kFinished, kStoppedEarly); empty: it did not.
  std::string end_at(int64_t step) const;
  static constexpr const char *kFinished = "finished", *kStoppedEarly = "stopped early";

  /// Takes the folder into use: an earlier run is forgotten if that was asked; config.yaml is written; metrics and
  /// best.bin go back to what they were at `resumed` (null: a fresh run, whose weights came from `init` if not empty).
  /// Returns whether there is a best.bin now.
  bool begin(const Config& config, int ranks, const RunState* resumed, const std::string& init);

  /// Returns the checkpoint's path.
  std::string save(const RunState& state, const Provenance& provenance, const Metadata& metadata,
                   const Programs& programs, const Engine& engine);
  void write_weights(const std::string& name, const Programs& programs, const Engine& engine, const Metadata& metadata);

 private:
  FileSystem files_;
  Path out_;
  RunLock lock_;
  bool reset_;
  int keep_last_;
  Path resume_from_;
  std::optional<Provenance> resumed_;
  std::unique_ptr<Store> store_;
};

}  // namespace ct
