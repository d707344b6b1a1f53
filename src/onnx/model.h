// A network and its weights as a model in ONNX's format, which other programs run: operator set 17, in a file of IR
// version 8 (github.com/onnx/onnx/blob/main/docs/Versioning.md).
//
//   input   images         u8 [batch][height][width][channels], any batch; normalised inside
//   output  probabilities  f32 [batch][classes]: the softmax of the logits
//       or  logits         f32 [batch][classes]
//
// The weights are initializers with the names, shapes and bytes that they have in PyTorch's state_dict, in f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/view.h"

namespace ct::onnx {

inline constexpr std::string_view kInput = "images", kProbabilities = "probabilities", kLogits = "logits";
/// Messages of protocol buffers are shorter than 2 GiB.
inline constexpr uint64_t kMostBytes = (uint64_t{1} << 31) - 1;

struct ModelOptions {
  std::string name;  // of the network
  std::string doc;   // for people
  std::map<std::string, std::string> metadata;
  std::span<const View> views;  // of each image, one at least; see train.eval_views
  bool raw = false;             // the output is the logits
};

/// The elements of a parameter in PyTorch's order, f32, little-endian.
using ParameterBytes = std::function<std::span<const std::byte>(size_t parameter)>;

class Model {
 public:
  /// `graph`: of an evaluation in f32, as build_graph() makes it, of any batch. Error(usage) if ONNX has no operator
  /// for one of its operations, or if the file would be too large.
  Model(const Graph& graph, const ModelOptions& options);

  uint64_t bytes() const { return bytes_; }
  /// Passes the file's bytes in order, parameter by parameter.
  void write(const ParameterBytes& elements, const std::function<void(std::span<const std::byte>)>& to) const;

 private:
  std::vector<std::string> before_;  // by parameter: the bytes in front of its elements
  uint64_t bytes_ = 0;
};

/// Does a file begin as these models do? A beginning of that suffices.
bool is_own_model(std::string_view file);

}  // namespace ct::onnx
