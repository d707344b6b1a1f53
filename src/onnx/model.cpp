#include "onnx/model.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "base/version.h"
#include "onnx/fields.h"
#include "onnx/nodes.h"
#include "onnx/operations.h"
#include "onnx/views.h"

namespace ct::onnx {
namespace {

constexpr int kIrVersion = 8, kOpset = 17;
constexpr std::string_view kProducer = "cifar-train";

/// The first fields of a file.
ProtobufMessage beginning() {
  return ProtobufMessage().number(model_proto::ir_version, kIrVersion).bytes(model_proto::producer_name, kProducer);
}

/// A ValueInfoProto of a tensor whose first dimension is the batch.
ProtobufMessage batch_of(std::string_view name, int type, const std::vector<int64_t>& shape, std::string_view doc) {
  ProtobufMessage dims;
  dims.message(tensor_shape::dim, ProtobufMessage().bytes(dimension::dim_param, "batch"));
  for (const int64_t size : shape)
    dims.message(tensor_shape::dim, ProtobufMessage().number(dimension::dim_value, size));
  ProtobufMessage tensor;
  tensor.number(type_proto_tensor::elem_type, type).message(type_proto_tensor::shape, dims);
  return ProtobufMessage()
      .bytes(value_info::name, name)
      .message(value_info::type, ProtobufMessage().message(type_proto::tensor_type, tensor))
      .bytes(value_info::doc_string, doc);
}

/// What the nodes of an operation are named for: the layer's result, or the first value that it writes.
std::string_view scope_of(const Graph& graph, const ComputeOp& op) {
  const Ids written = writes(op);
  const auto result = std::ranges::find_if(written, [&](ValueId id) { return graph[id].name.ends_with(".out"); });
  return graph[result != written.end() ? *result : written.front()].name;
}

void add_operations(const Graph& graph, Nodes& nodes) {
  for (const ComputeOp& op : graph.ops())
    std::visit(
        [&]<class Op>(const Op& one) {
          if constexpr (Forward<Op>) {
            nodes.begin(scope_of(graph, op));
            convert(one, nodes);
          } else {
            check(std::is_same_v<Op, SoftmaxCrossEntropy>, "an evaluation with the operation ", Op::kName);
          }
        },
        op);
}

ValueId logits_of(const Graph& graph) {
  const auto* const loss = std::get_if<SoftmaxCrossEntropy>(&graph.ops().back());
  check(loss != nullptr, "an evaluation that does not end in its loss");
  return loss->logits;
}

/// A GraphProto without the parameters.
ProtobufMessage graph_message(const Graph& graph, const ModelOptions& options) {
  check(!options.views.empty(), "a model without a view of its images");
  Nodes nodes(graph);
  nodes.begin(kInput);
  nodes.set(graph.ports.images, all_views(nodes.input(std::string(kInput)), options.views, nodes));
  add_operations(graph, nodes);
  const ValueId logits = logits_of(graph);
  nodes.begin(options.raw ? kLogits : kProbabilities);
  const std::string mean = weighted_mean(nodes[logits], options.views, graph.shape(logits).columns(), nodes);
  if (!options.raw) nodes.add("Softmax", {mean}, {{"axis", int64_t{1}}});
  const std::string_view output = options.raw ? kLogits : kProbabilities;
  nodes.name_result(std::string(output));

  const Shape& images = graph.shape(graph.ports.images);
  ProtobufMessage message;
  nodes.write(message);
  message.bytes(graph_proto::name, options.name);
  message.message(graph_proto::input, batch_of(kInput, tensor_proto::kUint8, {images[2], images[3], images[1]},
                                               "pixels, 0 to 255, as [batch][height][width][channels]"));
  return message.message(graph_proto::output, batch_of(output, tensor_proto::kFloat, {graph.shape(logits).columns()},
                                                       "as [batch][classes]"));
}

/// A ModelProto up to its graph.
ProtobufMessage model_message(const ModelOptions& options) {
  ProtobufMessage model = beginning();
  model.bytes(model_proto::producer_version, version()).bytes(model_proto::doc_string, options.doc);
  model.message(model_proto::opset_import, ProtobufMessage().number(operator_set_id::version, kOpset));
  for (const auto& [key, value] : options.metadata)
    model.message(model_proto::metadata_props,
                  ProtobufMessage().bytes(string_string_entry::key, key).bytes(string_string_entry::value, value));
  return model;
}

uint64_t elements_bytes(const Parameter& parameter) {
  return static_cast<uint64_t>(parameter.layout.numel()) * sizeof(float);
}

}  // namespace

Model::Model(const Graph& graph, const ModelOptions& options) {
  check(graph.mode() == Mode::evaluate && graph.compute() == DType::f32, "an ONNX model of another graph");
  const ProtobufMessage nodes = graph_message(graph, options);
  uint64_t graph_bytes = nodes.text().size();
  for (const Parameter& p : graph.parameters()) {
    const uint64_t elements = elements_bytes(p);
    ProtobufMessage tensor = tensor_header(p.name, p.shape, tensor_proto::kFloat);
    tensor.announce(tensor_proto::raw_data, elements);
    before_.push_back(
        ProtobufMessage().announce(graph_proto::initializer, tensor.text().size() + elements).append(tensor).text());
    graph_bytes += before_.back().size() + elements;
  }
  const std::string head = model_message(options).announce(model_proto::graph, graph_bytes).append(nodes).text();
  bytes_ = head.size() - nodes.text().size() + graph_bytes;
  if (bytes_ > kMostBytes)
    fail(ExitCode::usage, "an ONNX file of ", human_bytes(bytes_), ", which is over the format's 2 GiB: export this ",
         "network as safetensors");
  check(!before_.empty(), "a network without parameters");
  before_.front().insert(0, head);
}

void Model::write(const ParameterBytes& elements, const std::function<void(std::span<const std::byte>)>& to) const {
  for (size_t i = 0; i < before_.size(); ++i) {
    to(std::as_bytes(std::span(before_[i])));
    to(elements(i));
  }
}

bool is_own_model(std::string_view file) {
  const std::string begins = beginning().text();
  return begins.starts_with(file.substr(0, begins.size()));
}

}  // namespace ct::onnx
