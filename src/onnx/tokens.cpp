// Sequences of tokens [N][T][C].
#include "onnx/operations.h"

namespace ct::onnx {
namespace {

/// Images [N][C][H][W] as tokens, a pixel each.
std::string pixels_as_tokens(const std::string& x, int64_t channels, Nodes& nodes) {
  const std::string rows = nodes.add("Reshape", {x, nodes.list("pixels", {0, channels, -1})});
  return nodes.add("Transpose", {rows}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
}

/// A token [1][1][C], once for each image of x.
std::string for_each_image(const std::string& token, const std::string& x, int64_t channels, Nodes& nodes) {
  const std::string batch = nodes.add("Shape", {x}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
  const std::string shape =
      nodes.add("Concat", {batch, nodes.list("token_shape", {1, channels})}, {{"axis", int64_t{0}}});
  return nodes.add("Expand", {token, shape});
}

}  // namespace

void convert(const Tokens& op, Nodes& nodes) {
  const int64_t channels = nodes.shape(op.y).columns();
  std::string x = nodes[op.x];
  if (nodes.shape(op.x).rank() == 4) x = pixels_as_tokens(x, channels, nodes);
  if (op.class_token != kNone)
    x = nodes.add("Concat", {for_each_image(nodes[op.class_token], x, channels, nodes), x}, {{"axis", int64_t{1}}});
  nodes.set(op.y, nodes.add("Add", {x, nodes[op.positions]}));
}

void convert(const TakeToken& op, Nodes& nodes) {
  nodes.set(op.y, nodes.add("Gather", {nodes[op.x], nodes.scalar("first", int64_t{0})}, {{"axis", int64_t{1}}}));
}

void convert(const SequencePool& op, Nodes& nodes) {
  const std::string weights = nodes.add("Softmax", {nodes[op.score]}, {{"axis", int64_t{1}}});
  const std::string weighted = nodes.add("Mul", {nodes[op.x], weights});
  nodes.set(op.y, nodes.add("ReduceSum", {weighted, nodes.list("token_axis", {1})}, {{"keepdims", int64_t{0}}}));
}

}  // namespace ct::onnx
