// Attention of tokens to each other.
#include <limits>
#include <numeric>

#include "onnx/operations.h"

namespace ct::onnx {
namespace {

/// bool [n][n], true where row and column are equal: computed, because as a constant it would be large.
std::string diagonal(int64_t n, Nodes& nodes) {
  std::vector<int64_t> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return nodes.add("Equal", {nodes.integers("rows", {n, 1}, numbers), nodes.integers("columns", {1, n}, numbers)});
}

}  // namespace

void convert(const Attention& op, Nodes& nodes) {
  using Axes = std::vector<int64_t>;
  const int64_t tokens = nodes.shape(op.qkv)[1], columns = nodes.shape(op.y).columns();
  const int64_t heads = op.heads, width = columns / heads;
  const std::string by_head = nodes.add(
      "Transpose", {nodes.add("Reshape", {nodes[op.qkv], nodes.list("by_head", {0, tokens, 3, heads, width})})},
      {{"perm", Axes{2, 0, 3, 1, 4}}});
  const auto part = [&](const char* what, int64_t number) {  // [N][heads][T][width]
    return nodes.add("Gather", {by_head, nodes.scalar(what, number)}, {{"axis", int64_t{0}}});
  };
  const std::string q = part("queries", 0), k = part("keys", 1), v = part("values", 2);
  const std::string products = nodes.add("MatMul", {q, nodes.add("Transpose", {k}, {{"perm", Axes{0, 1, 3, 2}}})});
  const std::string scale =
      op.temperature != kNone ? nodes.add("Exp", {nodes[op.temperature]}) : nodes.scalar("scale", op.scale);
  std::string logits = nodes.add("Mul", {products, scale});
  if (op.mask_diagonal)
    logits = nodes.add(
        "Where", {diagonal(tokens, nodes), nodes.scalar("masked", -std::numeric_limits<float>::infinity()), logits});
  const std::string weights = nodes.add("Softmax", {logits}, {{"axis", int64_t{-1}}});
  const std::string sums = nodes.add("Transpose", {nodes.add("MatMul", {weights, v})}, {{"perm", Axes{0, 2, 1, 3}}});
  nodes.set(op.y, nodes.add("Reshape", {sums, nodes.list("joined", {0, tokens, columns})}));
}

}  // namespace ct::onnx
