#include "onnx/nodes.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "onnx/fields.h"

namespace ct::onnx {
namespace {

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// The layer of a value: "conv1" of "conv1.out", "conv1.relu" of "conv1.out.relu".
std::string without_out(std::string name) {
  constexpr std::string_view kOut = ".out";
  for (size_t at = 0; (at = name.find(kOut, at)) != name.npos;) {
    const size_t end = at + kOut.size();
    if (end == name.size() || name[end] == '.')
      name.erase(at, kOut.size());
    else
      at = end;
  }
  return name;
}

ProtobufMessage attribute_message(const Attribute& attribute) {
  using namespace attribute_proto;
  const auto& [key, value] = attribute;
  ProtobufMessage message;
  message.bytes(name, key);
  if (const auto* const number = std::get_if<int64_t>(&value))
    return message.number(i, *number).number(type, int{kInt});
  if (const auto* const real = std::get_if<float>(&value)) return message.fixed(f, *real).number(type, int{kFloat});
  for (const int64_t number : std::get<std::vector<int64_t>>(value)) message.number(ints, number);
  return message.number(type, int{kInts});
}

}  // namespace

ProtobufMessage tensor_header(std::string_view name, const std::vector<int64_t>& shape, int type) {
  ProtobufMessage tensor;
  for (const int64_t size : shape) tensor.number(tensor_proto::dims, size);
  return tensor.number(tensor_proto::data_type, type).bytes(tensor_proto::name, name);
}

Nodes::Nodes(const Graph& graph) : graph_(graph), tensors_(graph.values().size()) {
  for (const Parameter& p : graph.parameters()) set(p.value, unique(p.name));
}

const std::string& Nodes::input(const std::string& name) { return *names_.insert(name).first; }

const std::string& Nodes::operator[](ValueId id) const {
  check(id != kNone && !tensors_[static_cast<size_t>(id)].empty(), "no ONNX tensor of value ",
        id == kNone ? "none" : graph_[id].name);
  return tensors_[static_cast<size_t>(id)];
}

void Nodes::set(ValueId id, const std::string& tensor) { tensors_[static_cast<size_t>(id)] = tensor; }

void Nodes::begin(std::string_view scope) { scope_ = without_out(std::string(scope)); }

std::string Nodes::unique(std::string name) {
  std::string taken = name;
  for (int n = 2; !names_.insert(taken).second; ++n) taken = str(name, "_", n);
  return taken;
}

std::string Nodes::add(std::string_view type, std::vector<std::string> inputs, Attributes attributes) {
  const std::string name = unique(str(scope_, "/", type));
  nodes_.push_back({type, name, name, std::move(inputs), std::move(attributes)});
  return name;
}

std::string Nodes::constant(std::string_view what, const std::vector<int64_t>& shape, int type,
                            std::string_view bytes) {
  const std::string name = unique(str(scope_, "/", what));
  constants_.message(graph_proto::initializer, tensor_header(name, shape, type).bytes(tensor_proto::raw_data, bytes));
  return name;
}

std::string Nodes::floats(std::string_view what, const std::vector<int64_t>& shape, const std::vector<float>& values) {
  return constant(what, shape, tensor_proto::kFloat, bytes_of(values));
}

std::string Nodes::integers(std::string_view what, const std::vector<int64_t>& shape,
                            const std::vector<int64_t>& values) {
  return constant(what, shape, tensor_proto::kInt64, bytes_of(values));
}

void Nodes::write(ProtobufMessage& graph) const {
  for (const Node& node : nodes_) {
    ProtobufMessage message;
    for (const std::string& input : node.inputs) message.bytes(node_proto::input, input);
    message.bytes(node_proto::output, node.output).bytes(node_proto::name, node.name);
    message.bytes(node_proto::op_type, node.type);
    for (const Attribute& attribute : node.attributes)
      message.message(node_proto::attribute, attribute_message(attribute));
    graph.message(graph_proto::node, message);
  }
  graph.append(constants_);
}

}  // namespace ct::onnx
