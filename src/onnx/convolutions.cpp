// Convolutions and poolings, of images [N][C][H][W].
#include "onnx/operations.h"

namespace ct::onnx {
namespace {

/// The attributes of a square window.
Attributes window(int64_t kernel, int64_t stride, int64_t pad) {
  return {{"kernel_shape", std::vector{kernel, kernel}},
          {"pads", std::vector{pad, pad, pad, pad}},
          {"strides", std::vector{stride, stride}}};
}

}  // namespace

void convert(const Conv2d& op, Nodes& nodes) {
  std::vector<std::string> inputs = {nodes[op.x], nodes[op.w]};
  if (op.b != kNone) inputs.push_back(nodes[op.b]);
  nodes.set(op.y, nodes.add("Conv", inputs, window(op.kernel, op.stride, op.pad)));
}

void convert(const ConvReluPool& op, Nodes& nodes) {
  const std::string sums =
      nodes.add("Conv", {nodes[op.x], nodes[op.w], nodes[op.b]}, window(op.kernel, /*stride=*/1, /*pad=*/0));
  nodes.set(op.y, nodes.add("MaxPool", {activated(Activation::relu, sums, nodes)},
                            window(/*kernel=*/2, /*stride=*/2, /*pad=*/0)));
}

void convert(const MaxPool& op, Nodes& nodes) {
  nodes.set(op.y, nodes.add("MaxPool", {nodes[op.x]}, window(op.kernel, op.stride, op.pad)));
}

void convert(const AveragePool& op, Nodes& nodes) {
  nodes.set(op.y, nodes.add("Flatten", {nodes.add("GlobalAveragePool", {nodes[op.x]})}));
}

}  // namespace ct::onnx
