// Reads what a model's file says, for tests: a reader of protocol buffers and of the fields that this program writes.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/model.h"

namespace ct::onnx {

struct Field {
  uint64_t number = 0;
  uint64_t value = 0;      // of a varint
  std::string_view bytes;  // of other types
};

inline uint64_t take_varint(std::string_view& from) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(from.at(0));
    from.remove_prefix(1);
    value |= uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
}

/// All fields of a message, which must be whole.
inline std::vector<Field> fields(std::string_view message) {
  std::vector<Field> all;
  while (!message.empty()) {
    const uint64_t key = take_varint(message), type = key & 7;
    Field field{.number = key >> 3};
    if (type == 0) {
      field.value = take_varint(message);
    } else {
      const uint64_t size = type == 1 ? 8 : type == 5 ? 4 : take_varint(message);
      EXPECT_TRUE(type == 1 || type == 2 || type == 5) << "wire type " << type;
      EXPECT_LE(size, message.size());
      field.bytes = message.substr(0, size);
      message.remove_prefix(size);
    }
    all.push_back(field);
  }
  return all;
}

inline std::vector<Field> fields(std::string_view message, uint64_t number) {
  std::vector<Field> some;
  for (const Field& field : fields(message))
    if (field.number == number) some.push_back(field);
  return some;
}
inline std::string_view text(std::string_view message, uint64_t number) {
  const auto found = fields(message, number);
  return found.empty() ? std::string_view() : found.front().bytes;
}
inline std::string copy(std::string_view message, uint64_t number) { return std::string(text(message, number)); }

template <class T>
std::vector<T> elements(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

struct ReadNode {
  std::string type, name, output;
  std::vector<std::string> inputs;
  std::map<std::string, std::vector<int64_t>> integers;  // attributes
  std::map<std::string, float> reals;
};
struct ReadTensor {
  std::vector<int64_t> shape;
  uint64_t type = 0;
  std::string_view bytes;
};
/// The name of an input or output, its type and its dimensions; "batch" is -1.
struct ReadPort {
  std::string name;
  uint64_t type = 0;
  std::vector<int64_t> shape;
  bool operator==(const ReadPort&) const = default;
};

struct ReadModel {
  std::string file;
  uint64_t ir_version = 0, opset = 0;
  std::string producer, doc, name;
  std::map<std::string, std::string> metadata;
  std::vector<ReadNode> nodes;
  std::map<std::string, ReadTensor> tensors;
  std::vector<ReadPort> inputs, outputs;

  std::vector<std::string> types() const {
    std::vector<std::string> all;
    for (const ReadNode& node : nodes) all.push_back(node.type);
    return all;
  }
  /// The only node with that type.
  const ReadNode& node(std::string_view type) const {
    const ReadNode* found = nullptr;
    for (const ReadNode& one : nodes)
      if (one.type == type) {
        EXPECT_EQ(found, nullptr) << "two nodes of type " << type;
        found = &one;
      }
    if (!found) throw std::runtime_error("no node of type " + std::string(type));
    return *found;
  }
};

inline ReadNode read_node(std::string_view message) {
  ReadNode node{.type = copy(message, 4), .name = copy(message, 3), .output = copy(message, 2)};
  for (const Field& input : fields(message, 1)) node.inputs.emplace_back(input.bytes);
  for (const Field& attribute : fields(message, 5)) {
    const std::string name = copy(attribute.bytes, 1);
    const uint64_t type = fields(attribute.bytes, 20).at(0).value;  // 1: float, 2: integer, 7: integers
    if (type == 1) node.reals[name] = elements<float>(fields(attribute.bytes, 2).at(0).bytes).at(0);
    for (const Field& value : fields(attribute.bytes, type == 2 ? 3 : 8))
      node.integers[name].push_back(static_cast<int64_t>(value.value));
  }
  return node;
}

inline ReadPort read_port(std::string_view message) {
  const std::string_view tensor = text(text(message, 2), 1);
  ReadPort port{.name = copy(message, 1), .type = fields(tensor, 1).at(0).value};
  for (const Field& dim : fields(text(tensor, 2), 1))
    port.shape.push_back(text(dim.bytes, 2) == "batch" ? -1 : static_cast<int64_t>(fields(dim.bytes, 1).at(0).value));
  return port;
}

inline ReadModel read_model(std::string bytes) {
  ReadModel model{.file = std::move(bytes)};
  std::string_view graph;
  for (const Field& field : fields(model.file)) {
    if (field.number == 1) model.ir_version = field.value;
    if (field.number == 2) model.producer = field.bytes;
    if (field.number == 6) model.doc = field.bytes;
    if (field.number == 7) graph = field.bytes;
    if (field.number == 8) model.opset = fields(field.bytes, 2).at(0).value;
    if (field.number == 14) model.metadata[copy(field.bytes, 1)] = copy(field.bytes, 2);
  }
  for (const Field& field : fields(graph)) {
    if (field.number == 1) model.nodes.push_back(read_node(field.bytes));
    if (field.number == 2) model.name = field.bytes;
    if (field.number == 11) model.inputs.push_back(read_port(field.bytes));
    if (field.number == 12) model.outputs.push_back(read_port(field.bytes));
    if (field.number != 5) continue;
    ReadTensor tensor{.type = fields(field.bytes, 2).at(0).value, .bytes = fields(field.bytes, 9).at(0).bytes};
    for (const Field& size : fields(field.bytes, 1)) tensor.shape.push_back(static_cast<int64_t>(size.value));
    EXPECT_TRUE(model.tensors.emplace(copy(field.bytes, 8), tensor).second) << "two tensors of one name";
  }
  return model;
}

/// The model of a graph whose parameters' elements are all zero.
inline ReadModel model_of(const Graph& graph, const ModelOptions& options) {
  const Model model(graph, options);
  std::string file;
  std::vector<std::byte> zeros;
  const auto elements_of = [&](size_t parameter) {
    zeros.resize(static_cast<size_t>(graph.parameters()[parameter].layout.numel()) * sizeof(float));
    return std::span<const std::byte>(zeros);
  };
  model.write(elements_of, [&](std::span<const std::byte> bytes) {
    file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  EXPECT_EQ(model.bytes(), file.size());
  return read_model(std::move(file));
}

/// What holds of every model: names are unique, nodes read what is there before them, and nothing is left unread.
inline void expect_sound(const ReadModel& model) {
  std::map<std::string, int> readers = {{model.inputs.at(0).name, 0}};
  for (const auto& [name, tensor] : model.tensors) readers[name] = 0;
  for (const ReadNode& node : model.nodes) {
    for (const std::string& input : node.inputs) {
      EXPECT_TRUE(readers.contains(input)) << node.name << " reads " << input;
      ++readers[input];
    }
    EXPECT_TRUE(readers.emplace(node.output, 0).second) << "two tensors " << node.output;
  }
  ++readers[model.outputs.at(0).name];
  for (const auto& [name, count] : readers) EXPECT_GT(count, 0) << "nothing reads " << name;
}

}  // namespace ct::onnx
