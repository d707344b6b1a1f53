#include "plan/cost.h"

#include <cmath>

namespace ct {
namespace {

class Flops {
 public:
  explicit Flops(const std::vector<Value>& values) : values_(values) {}

  double operator()(const ConvReluPool& op) const { return 4 * convolution(op.y, op.w); }  // 2x2 outputs an argmax
  double operator()(const ConvReluPoolGradW& op) const { return convolution(op.dy, op.dw); }
  double operator()(const ConvReluPoolGradX& op) const { return convolution(op.dy, op.w); }
  double operator()(const Conv2d& op) const { return convolution(op.y, op.w); }
  double operator()(const Conv2dGradW& op) const { return convolution(op.dy, op.dw); }
  double operator()(const Conv2dGradX& op) const { return convolution(op.dy, op.w); }
  double operator()(const Linear& op) const { return product(op.y, op.w); }
  double operator()(const LinearGradW& op) const { return product(op.dy, op.dw); }
  double operator()(const LinearGradX& op) const { return product(op.dy, op.w); }
  /// Of the units that rows visit.
  double operator()(const Fff& op) const {
    const Shape &x = values_[static_cast<size_t>(op.x)].shape, &y = values_[static_cast<size_t>(op.y)].shape;
    return 2 * static_cast<double>(x.rows() * op.trees.visited() * (x.columns() + y.columns()));
  }
  double operator()(const Attention& op) const { return 2 * attention_product(op.qkv); }
  /// The gradients of queries, keys, values and weights, and the logits, which nobody keeps.
  double operator()(const AttentionGrad& op) const { return 5 * attention_product(op.qkv); }
  /// Each turn x x^T, its square, and their polynomial times x.
  double operator()(const Orthogonalize& op) const {
    const double n = std::sqrt(numel(op.gram));
    return op.steps * (4 * n * numel(op.left) + 2 * n * n * n);
  }
  template <class Op>
  requires(Op::kFacts.limit == Limit::memory) double operator()(const Op&) const { return 0; }

 private:
  double numel(ValueId id) const { return static_cast<double>(values_[static_cast<size_t>(id)].shape.numel()); }
  /// Every output element meets every weight of its channel.
  double convolution(ValueId y, ValueId w) const {
    const Shape& shape = values_[static_cast<size_t>(y)].shape;
    return 2 * numel(y) * numel(w) / static_cast<double>(shape[shape.rank() - 1]);
  }
  double product(ValueId y, ValueId w) const {
    return 2 * static_cast<double>(values_[static_cast<size_t>(y)].shape.rows()) * numel(w);
  }
  /// Every token meets every other one, in all of a head's width.
  double attention_product(ValueId qkv) const {
    const Shape& shape = values_[static_cast<size_t>(qkv)].shape;
    return 2 * numel(qkv) / 3 * static_cast<double>(shape[1]);
  }

  const std::vector<Value>& values_;
};

/// What an operation reads of a value: of images that an index picks, those of the micro-batch.
double read_bytes(const Op& op, ValueId id, const std::vector<Value>& values) {
  const auto bytes = [&](ValueId of) { return static_cast<double>(stored_bytes(values[static_cast<size_t>(of)])); };
  const auto picked = [&](const auto& o) {
    if constexpr (requires { o.images, o.index; })
      if (id == o.images && o.index != kNone)
        return bytes(id) * static_cast<double>(values[static_cast<size_t>(o.index)].shape[0]) /
               static_cast<double>(values[static_cast<size_t>(id)].shape[0]);
    return bytes(id);
  };
  const auto* compute = std::get_if<ComputeOp>(&op);
  return compute ? std::visit(picked, *compute) : bytes(id);
}

}  // namespace

Cost cost_of(const Op& op, const std::vector<Value>& values) {
  Cost cost;
  if (const auto* compute = std::get_if<ComputeOp>(&op)) cost.flops = std::visit(Flops(values), *compute);
  for (ValueId id : reads(op)) cost.bytes += read_bytes(op, id, values);
  for (ValueId id : writes(op)) cost.bytes += static_cast<double>(stored_bytes(values[static_cast<size_t>(id)]));
  return cost;
}

}  // namespace ct
