// A run's checkpoints: OUT/ckpt/step-00000120/, with the files of checkpoint/manifest.h.
//
// A save writes ".tmp-step-…", syncs it, renames it and syncs OUT/ckpt. If the step already exists, it is first renamed
// to ".old-step-…", which replaces the step until the new one has its name; ".trash-step-…" is being deleted. So at any
// moment the old or the new checkpoint loads. One writer at a time (RunLock); readers need no lock.
//
// Damage is Error(ExitCode::checkpoint), a failing disk Error(ExitCode::io); a failed save changes no earlier
// checkpoint.
#pragma once

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/manifest.h"
#include "checkpoint/rows.h"

namespace ct {

/// An open checkpoint. Tensors are views of mapped files, valid for its lifetime.
struct Checkpoint {
  Manifest manifest;
  SafetensorsFile weights;
  std::vector<SafetensorsFile> optimizer;  // shard 0 of N first
  nlohmann::json state;
  Path state_path() const { return weights.path().parent_path() / kStateFile; }
  /// The moments, joined from all shards.
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
  static constexpr int64_t kAfterAll = std::numeric_limits<int64_t>::max();  // a step

  /// Throws Error(checkpoint) for a checkpoint whose files are right, but whose state no run has.
  using RequireState = std::function<void(const Checkpoint&)>;
  /// `folder` is OUT/ckpt; it need not exist for reading. `files` must outlive the store.
  Store(FileSystem& files, const Path& folder, const RunIdentity& identity, RequireState require_state = {});

  // ---- writing (checkpoint/save.h does it by all ranks): begin on rank 0, then create_* and open_* on any, then
  // commit or abandon on rank 0

  /// Error(io) if the step's temporary folder has a file of others.
  void begin(int64_t step);
  File create_weights(int64_t step);
  File open_weights(int64_t step);
  File create_shard(int64_t step, int shard, int shards);
  /// The metadata by which files identify their checkpoint, and a shard also its number.
  Metadata marks(int64_t step) const;
  Metadata marks(int64_t step, int shard, int shards) const;
  /// `parts` are all files except state.json, already synced; `not_finite` is for the manifest.
  void commit(int64_t step, std::vector<Part> parts, const nlohmann::json& state,
              const std::vector<std::string>& not_finite);
  /// Removes a checkpoint that will not be committed, as far as the disk allows.
  void abandon(int64_t step) noexcept;

  /// Cleans up after a killed writer: old checkpoints get their name back, and temporary ones are removed. Writer only.
  /// `report` is called with a line for each that cannot be removed.
  void recover(const std::function<void(const std::string&)>& report);
  /// Removes the checkpoints beyond(keep_last, good), and leftovers of removals; returns their steps.
  std::vector<int64_t> prune(int64_t keep_last, std::optional<int64_t> good = {});
  /// Removes these checkpoints, and leftovers of removals.
  void remove(const std::vector<int64_t>& steps);
  /// Removes the checkpoints of later steps than that one.
  void forget_after(int64_t step);

  // ---- reading

  /// Steps of all checkpoints, good or not, ascending. Other files of the folder are ignored.
  std::vector<int64_t> list() const;
  Path path_of(int64_t step) const;
  /// All faults of a checkpoint, each with file and tensor; empty: it is good. Error(io) of a file that cannot be read,
  /// which may pass, Error(checkpoint) of damage. Throws Error(memory).
  std::vector<Error> verify(int64_t step) const;
  /// The newest checkpoint that verifies; nullopt if there is no checkpoint at all. `report` is called with a line for
  /// each damaged one that is passed over; if none verifies: Error(ExitCode::checkpoint), or Error(io) if one could not
  /// be read.
  std::optional<int64_t> newest_good(const std::function<void(const std::string&)>& report) const;
  /// All but the newest `keep_last` checkpoints, but never the newest good one, the newest good one whose tensors are
  /// all finite, nor those with a file that no save has written, of each of which `report` gets a line. `good`: a step
  /// that is known to be good, such as the one just committed; without it, the newest good one is searched.
  std::vector<int64_t> beyond(int64_t keep_last, std::optional<int64_t> good = {},
                              const std::function<void(const std::string&)>& report = {}) const;
  /// The newest checkpoint of a step before that one that verifies and whose weights and moments are all finite. `good`
  /// is known to verify.
  std::optional<int64_t> newest_finite(std::optional<int64_t> good = {}, int64_t before = kAfterAll) const;
  /// Verifies all of a checkpoint and opens it.
  Checkpoint load(int64_t step) const;
  Manifest manifest(int64_t step) const;

 private:
  Path scratch(std::string_view prefix, int64_t step) const;
  void remove_trash();
  void remove_checkpoint(int64_t step);
  void remove_step_folder(const Path& path);

  FileSystem& files_;
  Path folder_;
  RunIdentity identity_;
  RequireState require_state_;
};

/// "best-00000120.bin": the copy of best.bin at that step, next to the step's folder; and the step of such a name, also
/// of a temporary file left by a killed writer.
std::string saved_best_name(int64_t step);
std::optional<int64_t> saved_best_step(std::string_view name);
/// Is this a name in a checkpoint's folder of a part, or of a temporary file for one?
bool is_saved_name(const std::string& name);
/// Is this one of the store's own temporary folders (".tmp-step-…" and so on)?
bool is_scratch_name(std::string_view name);
/// Opens a checkpoint's folder at any path (`--resume PATH`). Verifies all, or all except the elements, whose readers
/// then check them (StoredTensor::crc).
Checkpoint load_checkpoint(const Path& folder, const RunIdentity& identity,
                           SafetensorsFile::Check check = SafetensorsFile::Check::all);

/// Is it a part of a checkpoint that holds optimizer state, not weights?
bool is_optimizer_shard(const SafetensorsFile& file);

}  // namespace ct
