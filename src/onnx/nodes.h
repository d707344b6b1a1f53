// A graph of ONNX in the making (github.com/onnx/onnx/blob/main/docs/IR.md): nodes, each with one result, and the
// constants that they read.
//
// The values of the program's graph become tensors of the same shape, but that images are [N][C][H][W], as ONNX's
// convolutions take them, where the program's own are [N][H][W][C]. N is open.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/protobuf_writer.h"
#include "graph/graph.h"

namespace ct::onnx {

using Attribute = std::pair<std::string_view, std::variant<int64_t, float, std::vector<int64_t>>>;
using Attributes = std::vector<Attribute>;

class Nodes {
 public:
  /// The graph's parameters are tensors from the beginning, under their own names.
  explicit Nodes(const Graph& graph);

  const Graph& graph() const { return graph_; }
  const Shape& shape(ValueId id) const { return graph_.shape(id); }

  /// Takes the name of an input.
  const std::string& input(const std::string& name);

  /// The tensor of a value. A value that no operation before has computed is a bug.
  const std::string& operator[](ValueId id) const;
  void set(ValueId id, const std::string& tensor);

  /// The nodes from here on belong to that operation or layer: their names begin with it.
  void begin(std::string_view scope);
  /// Adds a node and returns its result, which has the node's name, such as "layer1.0.conv1/Conv".
  std::string add(std::string_view type, std::vector<std::string> inputs, Attributes attributes = {});
  /// Gives the last node's result the name of an output.
  void name_result(const std::string& name) { nodes_.back().output = name; }

  /// Constants of that shape. A list has one dimension, a scalar none.
  std::string floats(std::string_view what, const std::vector<int64_t>& shape, const std::vector<float>& values);
  std::string integers(std::string_view what, const std::vector<int64_t>& shape, const std::vector<int64_t>& values);
  std::string list(std::string_view what, const std::vector<int64_t>& values) {
    return integers(what, {std::ssize(values)}, values);
  }
  std::string scalar(std::string_view what, float value) { return floats(what, {}, {value}); }
  std::string scalar(std::string_view what, int64_t value) { return integers(what, {}, {value}); }

  /// Adds nodes and constants to a GraphProto.
  void write(ProtobufMessage& graph) const;

 private:
  struct Node {
    std::string_view type;
    std::string name, output;
    std::vector<std::string> inputs;
    Attributes attributes;
  };

  /// `name`, or with a number behind it where it is taken.
  std::string unique(std::string name);
  std::string constant(std::string_view what, const std::vector<int64_t>& shape, int type, std::string_view bytes);

  const Graph& graph_;
  std::string scope_;
  std::vector<std::string> tensors_;  // by ValueId; empty: none yet
  std::set<std::string, std::less<>> names_;
  std::vector<Node> nodes_;
  ProtobufMessage constants_;
};

/// A TensorProto without its elements; `type` is of TensorProto.DataType.
ProtobufMessage tensor_header(std::string_view name, const std::vector<int64_t>& shape, int type);

}  // namespace ct::onnx
