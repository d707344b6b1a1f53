// Linear layers and operations on single elements.
#include <algorithm>
#include <numbers>

#include "base/error.h"
#include "onnx/operations.h"

namespace ct::onnx {
namespace {

/// Opset 17 has no Gelu: x / 2 (1 + erf(x / sqrt(2))).
std::string gelu(const std::string& x, Nodes& nodes) {
  const std::string scaled = nodes.add("Div", {x, nodes.scalar("sqrt_2", std::numbers::sqrt2_v<float>)});
  const std::string sum = nodes.add("Add", {nodes.add("Erf", {scaled}), nodes.scalar("one", 1.0F)});
  return nodes.add("Mul", {nodes.add("Mul", {x, sum}), nodes.scalar("half", 0.5F)});
}

}  // namespace

std::string activated(Activation activation, const std::string& x, Nodes& nodes) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return nodes.add("Relu", {x});
    case Activation::gelu:
      return gelu(x, nodes);
  }
  fail(ExitCode::bug, "internal error: an activation without an ONNX node");
}

void convert(const Activate& op, Nodes& nodes) { nodes.set(op.y, activated(op.activation, nodes[op.x], nodes)); }

void convert(const Add& op, Nodes& nodes) { nodes.set(op.y, nodes.add("Add", {nodes[op.a], nodes[op.b]})); }

/// The elements of images come in ONNX's and PyTorch's order, channels first. In the program's own order, channels
/// last, only the stored weights of linear layers know the difference.
void convert(const Flatten& op, Nodes& nodes) {
  if (nodes.shape(op.x).rank() == 4)
    for (const ComputeOp& other : nodes.graph().ops())
      check(std::holds_alternative<Linear>(other) || std::ranges::count(reads(other), op.y) == 0,
            "a flattened image that is not read by a linear layer");
  nodes.set(op.y, nodes.add("Flatten", {nodes[op.x]}));
}

void convert(const Linear& op, Nodes& nodes) {
  const std::string &x = nodes[op.x], &w = nodes[op.w];
  std::string y;
  if (nodes.shape(op.x).rank() == 2) {
    std::vector<std::string> inputs = {x, w};
    if (op.b != kNone) inputs.push_back(nodes[op.b]);
    y = nodes.add("Gemm", inputs, {{"transB", int64_t{1}}});
  } else {
    y = nodes.add("MatMul", {x, nodes.add("Transpose", {w}, {{"perm", std::vector<int64_t>{1, 0}}})});
    if (op.b != kNone) y = nodes.add("Add", {y, nodes[op.b]});
  }
  nodes.set(op.y, activated(op.activation, y, nodes));
}

}  // namespace ct::onnx
