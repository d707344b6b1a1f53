// Between the state of an engine and tensors by name in PyTorch's layout: loading, hashing, what a file says of itself.
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

/// Tensors in files: "<parameter>", running statistics among them, "<parameter>.ema" likewise, and
/// "<parameter>.exp_avg", never of a statistic. `name` is the state's.
TensorSpec state_spec(const Parameter& parameter, StateKind kind, const std::string& name);

/// Of a file that has both: the weights or their moving average.
enum class WeightSet : uint8_t { weights, ema };
bool has_ema(const SafetensorsFile& file);
/// What the evaluations of the file's run were of, by which it chose its best weights.
WeightSet evaluated_set(const SafetensorsFile& file);

/// What a weight's tensor is called.
std::string name_of_parameter(const Parameter& parameter);
/// Fills what `state` holds with the rows of tensors, which are named by `name`; a parameter without a tensor keeps its
/// value. The elements read are compared with their checksums: Error(checkpoint) naming file and tensor.
void load_rows(const std::vector<LogicalTensor>& tensors, const Graph& graph, const FlatLayout& flat,
               const StateBuffer& state, const std::function<std::string(const Parameter&)>& name);

/// Gives a parameter's elements, all of them in PyTorch's order, or none, which leaves it as it is; valid until the
/// next call.
using TorchValues = std::function<std::span<const float>(size_t parameter)>;

/// Stores the rows that the buffer holds. The caller then calls Engine::state_written().
void write_weights(const Graph& graph, const FlatLayout& flat, const StateBuffer& weights,
                   const TorchValues& torch_values);

/// The names of PyTorch's counters "...num_batches_tracked", one for every batch norm: I64, without dimensions. Files
/// have them for PyTorch: here nothing depends on them, and files without are as good.
std::vector<std::string> counter_names(const Graph& graph);

/// Replaces what the buffer holds, which is the weights or their average, by those of a safetensors file, whoever wrote
/// it; those of other floating-point types are converted to f32. Counters are ignored. Error(checkpoint) naming what
/// does not fit.
void load_weights(const SafetensorsFile& file, const Graph& graph, const FlatLayout& flat, const StateBuffer& weights);

/// The layer that gives the logits: "fc".
std::string head_of(const Graph& graph);

/// load_weights() into memory of flat.compute_bytes, in the form that layers compute with.
void load_compute_weights(const SafetensorsFile& file, WeightSet set, const Graph& graph, const FlatLayout& flat,
                          std::byte* params);

/// "model.heads 2 (here 1)": keys of the model, other than probabilities, that the file says otherwise. Empty if there
/// are none, or the file is of another program or of another network.
std::string other_model_keys(const SafetensorsFile& file, Model model);

/// "10 tensors converted from bf16 to f32": of a file's tensors, those that are converted when they are loaded. Empty
/// if there are none.
std::string conversions(const SafetensorsFile& file);

/// The tensors of that set which hold an infinity or a NaN, by their names in the file.
std::vector<std::string> not_finite(const SafetensorsFile& file, WeightSet set);

/// weights_sha256 of a file, such as a finished run's last checkpoint's; and ema_sha256.
std::string weights_sha256_of(const Path& path);
std::string ema_sha256_of(const Path& path);

/// The weights file that `path` means: itself, a run's best.bin, or a checkpoint's weights. Error(usage) for a folder
/// that has none.
Path weights_file(const Path& path);

/// What a weights file says of itself: all that `eval` and `predict` need beside the tensors.
struct WeightsInfo {
  Model model;
  std::vector<double> mean, std;
  std::vector<std::string> class_names;
  std::string dataset, data_path;    // kind ("CIFAR-10", "synthetic-10") and data.path
  std::string data_train, data_val;  // data.train and data.val, where they were given
  int64_t size = 0, resize = 0;      // data.size and data.resize of pictures; 0: images have their size
  int64_t step = 0, epoch = 0;
  int64_t seed = 0, validation = 0, limit = 0;  // which training images were held out, and were there at all
  int64_t test_images = 0;
  OnCorrupt on_corrupt = OnCorrupt::error;   // data.on_corrupt
  std::string compute = "f32";               // or bf16: what the run computed with
  WeightSet evaluated = WeightSet::weights;  // to be written; evaluated_set() reads it
  // What else an evaluation needs for the very same loss.
  int64_t eval_batch = 0;  // images at a time
  EvalViews eval_views = EvalViews::plain;
  bool winograd = true, tf32 = false;
  std::string plans;  // Backend::plans
};
Metadata to_metadata(const WeightsInfo& info);
/// Error(checkpoint) naming the file and what it lacks.
WeightsInfo info_of(const SafetensorsFile& file);

}  // namespace ct
