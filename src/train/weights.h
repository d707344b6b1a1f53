// Between the flat buffers of an engine and tensors by name in PyTorch's layout: saving, loading, hashing.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "engine/engine.h"
#include "train/run_state.h"
#include "train/setup.h"

namespace ct {

/// Copies of a flat buffer's parameters in PyTorch's layout, named "<parameter><suffix>".
class TorchTensors {
 public:
  TorchTensors(const Graph& graph, const FlatLayout& flat, std::span<const float> buffer,
               const std::string& suffix = "");
  /// Zeros of the right shapes, to be restored into.
  TorchTensors(const Graph& graph, const std::string& suffix = "");

  std::vector<TensorView> views() const;
  std::vector<NamedTensor> named();
  /// Writes the copies into a flat buffer.
  void store(const Graph& graph, const FlatLayout& flat, std::span<float> buffer) const;

 private:
  struct Copy {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  std::vector<Copy> copies_;
};

std::string weights_hash(const Programs& programs, const Engine& engine);

/// Replaces the weights by those of a safetensors file, whoever wrote it. Error(checkpoint) naming what does not fit.
void load_weights(const SafetensorsFile& file, const Graph& graph, const FlatLayout& flat, std::span<float> params);

/// The weights file that `path` means: itself, a run's best.bin, or a checkpoint's weights. Error(usage) for a folder
/// that has none.
Path weights_file(const Path& path);

/// What a weights file says of itself: all that `eval` and `predict` need beside the tensors.
struct WeightsInfo {
  std::string model;
  std::array<double, 3> mean{}, std{};
  std::vector<std::string> class_names;
  std::string dataset, data_path;  // kind ("CIFAR-10", "synthetic-10") and data.path
  int64_t step = 0, epoch = 0;
  int64_t seed = 0, validation = 0;  // which training images were held out
  std::string on_corrupt = "error";  // data.on_corrupt
};
Metadata to_metadata(const WeightsInfo& info);
/// Error(checkpoint) naming the file and what it lacks.
WeightsInfo info_of(const SafetensorsFile& file);

}  // namespace ct
