// What a checkpoint consists of: step-00000120/{weights.safetensors, optim-KK-of-NN.safetensors, state.json,
// manifest.json}. It exists when its manifest verifies: that lists every other file with its bytes and CRC32C, is
// written last and carries its own checksum.
//
// Damage is Error(ExitCode::checkpoint), one line that names the file and the remedy.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "checkpoint/safetensors.h"

namespace ct {

inline constexpr std::string_view kWeightsFile = "weights.safetensors", kStateFile = "state.json",
                                  kManifestFile = "manifest.json";

inline constexpr int kCheckpointVersion = 1;

/// The run that checkpoints belong to: the model's name is compared when one is loaded.
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
  /// Names of weights and moments that hold an infinity or a NaN, sorted, as found while they were written: training
  /// does not recover from them.
  std::vector<std::string> not_finite;
};

/// The manifest of a checkpoint's folder, every entry checked: its files have only names that a save uses, and are all
/// that a checkpoint needs. The files themselves are not looked at.
Manifest read_manifest(const Path& folder);

/// The text of manifest.json, sealed with its checksum.
std::string manifest_text(const Manifest& manifest);

/// Compares a listed file with its entry: bytes and checksum, or the bytes alone. Calls `wrong` with a line for each
/// fault, which names the tensor where that is possible.
void verify_part(const Path& folder, const Part& part, SafetensorsFile::Check check,
                 const std::function<void(const std::string&)>& wrong);

/// "step-00000120"
std::string step_name(int64_t step);
/// The step of such a name; nothing for any other name.
std::optional<int64_t> step_of(std::string_view name);
/// Is this a file that a checkpoint's folder has?
bool is_part_name(const std::string& name);

/// One of the optimizer's files.
struct ShardNumber {
  int index, count;
};
/// "optim-00-of-04.safetensors"
std::string shard_name(int shard, int shards);
/// The number of such a name; nothing for any other name.
std::optional<ShardNumber> shard_of(const std::string& name);

/// A small file of a checkpoint, whole.
std::string read_part(const Path& path);

/// Throws Error(checkpoint): path, what is wrong with it, and the remedy.
inline constexpr std::string_view kTakeAnother = ": take another checkpoint";
[[noreturn]] void refuse_part(const Path& path, const std::string& what, std::string_view remedy = kTakeAnother);

}  // namespace ct
