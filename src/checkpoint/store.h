// A run's checkpoints: OUT/ckpt/step-00000120/, whose files checkpoint/manifest.h names.
//
// A save writes ".tmp-step-…", syncs it, renames it and syncs OUT/ckpt. Where the step exists already it is first
// renamed ".old-step-…", and stands in for the step until the new one has its name; ".trash-step-…" is being deleted.
// So at any moment the old or the new checkpoint loads. One writer at a time (RunLock); readers need no lock.
//
// Damage is Error(ExitCode::checkpoint), a failing disk Error(ExitCode::io); a failed save leaves what was there.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/manifest.h"
#include "checkpoint/rows.h"

namespace ct {

/// Tensors are views of mapped files: they live as long as this.
struct Checkpoint {
  Manifest manifest;
  SafetensorsFile weights;
  std::vector<SafetensorsFile> optimizer;  // shard 0 of N first
  nlohmann::json state;
  /// The moments, put together from all shards.
  std::vector<LogicalTensor> moments() const { return logical_tensors(optimizer); }
  /// SafetensorsFile::require_unchanged of all its files.
  void require_unchanged() const {
    weights.require_unchanged();
    for (const SafetensorsFile& file : optimizer) file.require_unchanged();
  }
};
/// "3 tensors are not finite (the first is 'conv1.weight')"; empty: all are finite.
std::string not_finite_text(const std::vector<std::string>& names);

class Store {
 public:
  /// `folder` is OUT/ckpt; it need not exist for reading. `files` must outlive the store.
  Store(FileSystem& files, const Path& folder, const RunIdentity& identity);

  // ---- writing (checkpoint/save.h does it by all ranks): begin on rank 0, then create_* and open_* on any, then
  // commit or abandon on rank 0

  void begin(int64_t step);
  File create_weights(int64_t step);
  File open_weights(int64_t step);
  File create_shard(int64_t step, int shard, int shards);
  /// What files of a checkpoint say in their metadata of where they belong; a shard also which it is.
  Metadata marks(int64_t step) const;
  Metadata marks(int64_t step, int shard, int shards) const;
  /// `parts` are all files but state.json, each of them synced; `not_finite` is for the manifest.
  void commit(int64_t step, std::vector<Part> parts, const nlohmann::json& state,
              const std::vector<std::string>& not_finite);
  /// Removes what there is of a checkpoint that will not be committed, as far as the disk allows.
  void abandon(int64_t step) noexcept;

  /// Ends what a killed writer had begun: old checkpoints get their name back, temporary ones are removed. Writer only.
  void recover();
  /// Removes all but the newest `keep_last` checkpoints, never the newest good one nor the newest good one whose
  /// tensors are all finite; returns the steps removed.
  /// `good`: a step that is known to be good, such as that just committed; without it, the newest good one is looked
  /// for.
  std::vector<int64_t> prune(int keep_last, std::optional<int64_t> good = {});
  /// Removes the checkpoints of later steps than that one.
  void forget_after(int64_t step);

  // ---- reading

  /// Steps of all checkpoints, good or not, ascending. Other things in the folder are not looked at.
  std::vector<int64_t> list() const;
  Path path_of(int64_t step) const;
  /// Everything that is wrong with a checkpoint, a line each that names the file and tensor; none: it is good.
  std::vector<std::string> verify(int64_t step) const;
  /// The newest checkpoint that verifies; nothing when there is no checkpoint at all. Each damaged one on the way is
  /// told to `report`, a line each; if none verifies: Error(ExitCode::checkpoint).
  std::optional<int64_t> newest_good(const std::function<void(const std::string&)>& report) const;
  /// The newest checkpoint that verifies and whose weights and moments are all finite. `good` is known to verify.
  std::optional<int64_t> newest_finite(std::optional<int64_t> good = {}) const;
  /// Verifies all and opens it.
  Checkpoint load(int64_t step) const;
  Manifest manifest(int64_t step) const;

 private:
  Path scratch(std::string_view prefix, int64_t step) const;
  void remove_checkpoint(int64_t step);
  void remove_step_folder(const Path& path);

  FileSystem& files_;
  Path folder_;
  RunIdentity identity_;
};

/// "best-00000120.bin": best.bin as it was when that step was saved, beside the step's folder; and back,
/// also of the temporary file that a killed writer left.
std::string saved_best_name(int64_t step);
std::optional<int64_t> saved_best_step(std::string_view name);
/// Is this one of the store's own folders beside checkpoints (".tmp-step-…" and so on)?
bool is_scratch_name(std::string_view name);
/// Opens a checkpoint's folder wherever it lies (`--resume PATH`). Verifies all, or all but the elements, which are
/// left to whoever reads them (StoredTensor::crc).
Checkpoint load_checkpoint(const Path& folder, const RunIdentity& identity,
                           SafetensorsFile::Check check = SafetensorsFile::Check::all);

}  // namespace ct
