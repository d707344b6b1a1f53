// Conversions between an engine's state and named tensors in PyTorch's layout: loading, hashing, and the metadata of
// weights files.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/rows.h"
#include "data/dataset.h"
#include "engine/engine.h"
#include "model/models.h"
#include "train/config/choices.h"
#include "train/run/run_state.h"

namespace ct {

/// Tensors in files: "<parameter>" and "<parameter>.ema", including running statistics, and "<parameter>.exp_avg"
/// without statistics. `name` is the state's.
TensorSpec state_spec(const Parameter& parameter, StateKind kind, const std::string& name);

/// The set of a file that contains both: the weights or their moving average.
enum class WeightSet : uint8_t { weights, ema };
bool has_ema(const SafetensorsFile& file);
/// The set that the file's run evaluated to choose its best weights.
WeightSet evaluated_set(const SafetensorsFile& file);

/// The name of a parameter's tensor.
std::string name_of_parameter(const Parameter& parameter);
/// Fills `state` with rows of the tensors that `name` returns; a parameter without a tensor keeps its value. Checksums
/// of the read elements are checked, and all but those of `not_finite`, a manifest's list, must be finite, and means
/// of squares not below 0, if it is given: Error(checkpoint) with file and tensor.
void load_rows(const std::vector<LogicalTensor>& tensors, const Graph& graph, const FlatLayout& flat,
               const StateBuffer& state, const std::function<std::string(const Parameter&)>& name,
               const std::vector<std::string>* not_finite = nullptr);

/// Returns all elements of a parameter in PyTorch's order, or none, in which case the parameter does not change; valid
/// until the next call.
using TorchValues = std::function<std::span<const float>(size_t parameter)>;

/// Writes the rows of the buffer. The caller must then call Engine::state_written().
void write_weights(const Graph& graph, const FlatLayout& flat, const StateBuffer& weights,
                   const TorchValues& torch_values);

/// The names of PyTorch's counters "...num_batches_tracked", one for every batch norm: I64, without dimensions. Files
/// contain them for PyTorch; no computation depends on them, and files without them are accepted.
std::vector<std::string> counter_names(const Graph& graph);

/// Replaces the buffer, which is the weights or their average, by the tensors of a safetensors file of any program;
/// other floating-point types are converted to f32. Counters are ignored. Error(checkpoint) with all differences;
/// `not_finite` as in load_rows().
void load_weights(const SafetensorsFile& file, const Graph& graph, const FlatLayout& flat, const StateBuffer& weights,
                  const std::vector<std::string>* not_finite = nullptr);

/// The layer that computes the logits: "fc".
std::string head_of(const Graph& graph);

/// load_weights() into memory of flat.compute_bytes, in the layout that layers read.
void load_compute_weights(const SafetensorsFile& file, WeightSet set, const Graph& graph, const FlatLayout& flat,
                          std::byte* params);

/// "model.heads 2 (here 1)": keys of the model, except probabilities, that differ in the file. Empty if there are none,
/// or if the file is of another program or another network.
std::string other_model_keys(const SafetensorsFile& file, Model model);

/// The keys that the model takes with their values as text: {"width", "32"}. Keys without a value are left out.
std::vector<std::pair<std::string, std::string>> model_key_texts(const Model& model);

/// "10 tensors converted from bf16 to f32": the tensors of a file that loading converts. Empty if there are none.
std::string conversions(const SafetensorsFile& file);

/// The names in the file of that set's tensors with an infinity or a NaN.
std::vector<std::string> not_finite(const SafetensorsFile& file, WeightSet set);

/// What a Store asks of a checkpoint that a run goes on from: Error(checkpoint) for a state that no run has, and for an
/// element that none saves: not finite, unless the manifest names its tensor, or negative in a mean or sum of squares.
void require_resumable(const Checkpoint& checkpoint);

/// weights_sha256 of a file, such as a finished run's last checkpoint's; and ema_sha256.
std::string weights_sha256_of(const Path& path);
std::string ema_sha256_of(const Path& path);

/// The weights file of `path`: itself, a run's best.bin, or a checkpoint's weights. Error(usage) for a folder without
/// one.
Path weights_file(const Path& path);

/// Error(checkpoint) for a part of a checkpoint that holds optimizer state.
void require_weights(const SafetensorsFile& file);

/// Of WeightsInfo::val_from and test_from: the set's own images of that split; none.
inline constexpr std::string_view kOwnImages = "own", kNoImages = "none";
/// The metadata of a weights file: all that `eval` needs in addition to the tensors.
struct WeightsInfo {
  Model model;
  std::vector<double> mean, std;
  std::vector<std::string> class_names;
  std::string dataset, data_path;               // kind ("CIFAR-10", "synthetic-10") and data.path
  std::string data_train, data_val, data_test;  // the folders of splits, if given
  SampleShape sample;                           // the network's input; empty: unknown
  int64_t size = 0, resize = 0;                 // data.size and data.resize of pictures; 0: images have their size
  int64_t step = 0, epoch = 0;
  int64_t seed = 0, limit = 0;  // with the shares below, they determine which training images were held out
  // Where the validation and the test images come from: kOwnImages, kNoImages, or a share of the training set ("20%").
  std::string val_from = "none", test_from = "own";
  int64_t divided_crc = 0;      // fingerprint() of a training set of which a part is held out; 0: unknown, or none is
  int64_t held_out_before = 0;  // images that an earlier version held out, in another way
  int64_t test_images = 0;
  OnCorrupt on_corrupt = OnCorrupt::error;   // data.on_corrupt
  Labels labels = Labels::fine;              // data.labels
  std::string compute = "f32";               // or bf16: the run's compute type
  WeightSet evaluated = WeightSet::weights;  // for writing; evaluated_set() reads it
  // Further settings that an evaluation needs for the same loss.
  int64_t eval_batch = 0;  // images at a time
  EvalViews eval_views = EvalViews::plain;
  bool winograd = true, tf32 = false;
  std::string plans;  // Backend::plans
};
Metadata to_metadata(const WeightsInfo& info);
/// Error(checkpoint) with the file and the missing field.
WeightsInfo info_of(const SafetensorsFile& file);

}  // namespace ct
