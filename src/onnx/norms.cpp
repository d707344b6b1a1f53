// Normalisations.
#include "base/error.h"
#include "onnx/operations.h"

namespace ct::onnx {

void convert(const BatchNorm& op, Nodes& nodes) {
  check(op.mean == kNone, "a batch norm by the statistics of its batch");
  check(nodes.shape(op.x).rank() != 3, "a batch norm of tokens, whose channels are not where ONNX's are");
  std::string y = nodes.add("BatchNormalization",
                            {nodes[op.x], nodes[op.w], nodes[op.b], nodes[op.running_mean], nodes[op.running_var]},
                            {{"epsilon", static_cast<float>(op.eps)}});
  if (op.residual != kNone) y = nodes.add("Add", {y, nodes[op.residual]});
  nodes.set(op.y, activated(op.relu ? Activation::relu : Activation::none, y, nodes));
}

void convert(const LayerNorm& op, Nodes& nodes) {
  std::string x = nodes[op.x];
  if (op.residual != kNone) nodes.set(op.sum, x = nodes.add("Add", {x, nodes[op.residual]}));
  nodes.set(op.y, nodes.add("LayerNormalization", {x, nodes[op.w], nodes[op.b]},
                            {{"axis", int64_t{-1}}, {"epsilon", static_cast<float>(op.eps)}}));
}

}  // namespace ct::onnx
