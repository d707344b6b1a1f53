// The files of a checkpoint: step-00000120/{weights.safetensors, optim-KK-of-NN.safetensors, state.json,
// manifest.json}. A checkpoint exists if its manifest verifies. The manifest lists every other file with its length and
// CRC32C, is written last and has its own checksum.
//
// Damage is Error(ExitCode::checkpoint), one line with the file and the remedy.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "checkpoint/safetensors.h"

namespace ct {

inline constexpr std::string_view kWeightsFile = "weights.safetensors", kStateFile = "state.json",
                                  kManifestFile = "manifest.json";

inline constexpr int kCheckpointVersion = 1;

/// The run that a checkpoint belongs to. Loading a checkpoint compares the model's name.
struct RunIdentity {
  std::string run;    // the run's id
  std::string model;  // "" accepts any
};

/// A file written into a checkpoint, as the manifest lists it.
struct Part {
  std::string name;
  uint64_t bytes = 0;
  uint32_t crc = 0;
};

struct Manifest {
  int64_t step = 0;
  RunIdentity identity;
  std::vector<Part> parts;  // sorted by name
  /// Names of weights and moments with an infinity or a NaN, sorted, detected while they were written: training does
  /// not recover from them.
  std::vector<std::string> not_finite;
};

/// The manifest of a checkpoint's folder. Every entry is checked: only names that a save uses, and all files that a
/// checkpoint needs. The files themselves are not read.
Manifest read_manifest(const Path& folder);

/// The text of manifest.json, sealed with its checksum.
std::string manifest_text(const Manifest& manifest);

/// Compares a listed file with its entry: length and checksum, or the length alone. Calls `wrong` for each fault, with
/// the tensor if possible: Error(checkpoint), or Error(io) where the file cannot be read.
void verify_part(const Path& folder, const Part& part, SafetensorsFile::Check check,
                 const std::function<void(const Error&)>& wrong);

/// "step-00000120"
std::string step_name(int64_t step);
/// The step of such a name; nullopt for any other name.
std::optional<int64_t> step_of(std::string_view name);
/// Is this the name of a file in a checkpoint's folder?
bool is_part_name(const std::string& name);

/// One of the optimizer's files.
struct ShardNumber {
  int index, count;
};
/// "optim-00-of-04.safetensors"
std::string shard_name(int shard, int shards);
/// The number in such a name; nullopt for any other name.
std::optional<ShardNumber> shard_of(const std::string& name);

/// Reads a small file of a checkpoint.
std::string read_part(const Path& path);

/// Throws Error(checkpoint) with the path, its fault, and the remedy.
inline constexpr std::string_view kTakeAnother = ": use another checkpoint";
[[noreturn]] void refuse_part(const Path& path, const std::string& what, std::string_view remedy = kTakeAnother);

}  // namespace ct
