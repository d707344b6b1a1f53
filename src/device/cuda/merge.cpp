// Operations that one kernel computes. Small kernels take about the same time whatever they do, so one of twice the
// size saves the other's time: the two gradients of a small layer, of which neither needs the other, the last layer of
// a few images with their loss, and the gradient's norm with the decisions that follow from it. Of large ones memory
// traffic is saved: two thirds of a sum's, where two gradients meet behind a residual block; that of dropout beside a
// layer norm, all but what its gradient writes; that of dropout behind an activation, and of its gradient. Matrices of
// Muon take turns on few units each; together they fill them.
#include <algorithm>

#include "device/cuda/layers.h"
#include "kernels/orthogonalize.h"

namespace ct::cuda {
namespace {

/// The first two operations, if they are of these kinds; else null.
template <class A, class B>
std::pair<const A*, const B*> first_two(std::span<const ComputeOp* const> ops) {
  if (ops.size() < 2) return {};
  const A* a = std::get_if<A>(ops[0]);
  const B* b = std::get_if<B>(ops[1]);
  return a && b ? std::pair(a, b) : std::pair<const A*, const B*>();
}

/// With more chunks, the counter of those that have ended costs more time than a launch.
constexpr size_t kFewChunks = 128;

/// Is it the gradient of the ReLU between the layer of these gradients and the one before?
bool is_relu_before(const ActivationGrad& op, const LinearGradW& w, const LinearGradX& x) {
  return op.activation == Activation::relu && op.x == w.x && op.dy == x.dx;
}

/// How many matrices of Muon begin the operations that may be rounded between products.
size_t matrices_first(std::span<const ComputeOp* const> ops) {
  const auto most = std::min(ops.size(), static_cast<size_t>(kernels::kMostMatrices));
  const auto is_one = [](const ComputeOp* of) {
    const auto* op = std::get_if<Orthogonalize>(of);
    return op != nullptr && op->between == DType::bf16;
  };
  return static_cast<size_t>(std::ranges::find_if_not(ops.first(most), is_one) - ops.begin());
}

}  // namespace

MergedKernel CudaBackend::merge(std::span<const ComputeOp* const> ops, const std::vector<Value>& values,
                                std::span<const int> readers) {
  const auto is_read_once = [&](ValueId id) { return readers[static_cast<size_t>(id)] == 1; };
  const auto merged = [&](const std::string& name, size_t operations, const auto&... prepared) {
    const ValueId result = writes(*ops.front()).front();
    const Context in(*this, values, str(name, " ", values[static_cast<size_t>(result)].name));
    std::unique_ptr<Kernel> kernel = prepare_both(prepared..., in);
    return kernel ? MergedKernel{std::move(kernel), operations, name} : MergedKernel{};
  };
  if (const auto [w, x] = first_two<ConvReluPoolGradW, ConvReluPoolGradX>(ops); w && w->dy == x->dy)
    return merged("conv_relu_pool_grad", 2, *w, *x);
  if (const auto [w, x] = first_two<LinearGradW, LinearGradX>(ops); w && w->dy == x->dy) {
    const auto* relu = ops.size() > 2 ? std::get_if<ActivationGrad>(ops[2]) : nullptr;
    if (relu && is_relu_before(*relu, *w, *x)) return merged("linear_relu_grad", 3, *w, *x, relu->dx);
    return merged("linear_grad", 2, *w, *x, kNone);
  }
  if (const auto [linear, loss] = first_two<Linear, SoftmaxCrossEntropy>(ops); linear && loss->logits == linear->y)
    return merged("linear_loss", 2, *linear, *loss);
  if (const auto [linear, drop] = first_two<Linear, Dropout>(ops);
      linear && !is_fused(linear->activation) && drop->x == linear->y && is_read_once(linear->y))
    return merged("linear", 2, *linear, *drop);
  if (const auto [drop, grad] = first_two<Dropout, ActivationGrad>(ops);
      drop && drop->y == grad->dy && is_read_once(drop->y))
    return merged("dropout_activation_grad", 2, *drop, *grad);
  if (const auto [sum, norm] = first_two<Add, BatchNormGrad>(ops); sum && sum->y == norm->dy && is_read_once(sum->y))
    return merged("batch_norm_grad", 2, *sum, *norm);
  if (const auto [drop, norm] = first_two<Dropout, LayerNorm>(ops); drop && drop->y == norm->x && is_read_once(drop->y))
    return merged("layer_norm", 2, *drop, *norm);
  if (const auto [norm, drop] = first_two<LayerNormGrad, Dropout>(ops); norm && norm->dx == drop->x)
    return merged("layer_norm_grad", 2, *norm, *drop);
  if (const auto [squares, control] = first_two<SquareSums, StepControl>(ops);
      squares && squares->sums == control->sums && squares->chunks.size() <= kFewChunks &&
      !Offload::wants(*ops[0], values) && !Offload::wants(*ops[1], values))
    return merged("norm_and_control", 2, *squares, *control);
  if (const size_t matrices = matrices_first(ops); matrices > 1) {
    const Context in(*this, values, "orthogonalize");
    return {prepare_all(ops.first(matrices), in), matrices, "orthogonalize"};
  }
  return {};
}

}  // namespace ct::cuda
