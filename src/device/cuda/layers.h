// A GPU's prepared operations, one function an operation kind: layers.cpp, and by family attention.cpp,
// sequence_pool.cpp, dropout.cpp, experts.cpp, fff.cpp, optimizer.cpp, trust.cpp, muon.cpp, grad_norm.cpp,
// tree_sum.cpp.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>

#include "device/cuda/cuda_backend.h"
#include "device/operands.h"

namespace ct::cuda {

/// The context of preparing an operation: its backend, and shapes and element types of the program's values.
class Context {
 public:
  Context(CudaBackend& backend, const std::vector<Value>& values, std::string label)
      : backend(backend), values_(values), label_(std::move(label)) {}
  const Value& operator[](ValueId id) const { return values_[static_cast<size_t>(id)]; }
  const std::vector<Value>& values() const { return values_; }
  const Shape& shape(ValueId id) const { return (*this)[id].shape; }
  DType dtype(ValueId id) const { return (*this)[id].dtype; }
  cudaStream_t stream() const { return backend.stream(); }
  /// The operation's name, for profilers: "conv2d layer1.0.conv1.out".
  const std::string& label() const { return label_; }

  CudaBackend& backend;

 private:
  const std::vector<Value>& values_;
  std::string label_;
};

#define CT_PREPARE(Op) std::unique_ptr<Kernel> prepare(const Op& op, const Context& in);
CT_LAYER_OPS(CT_PREPARE)
CT_OTHER_OPS(CT_PREPARE)
#undef CT_PREPARE
std::unique_ptr<Kernel> prepare_update(const Update& op, const rules::Any& rule, const Context& in);
template <class Rule>
std::unique_ptr<Kernel> prepare(const RuleUpdate<Rule>& op, const Context& in) {
  return prepare_update(op, op.rule, in);
}

/// Where the layer's sums are, before its activation.
inline ValueId sums_of(const Linear& op) { return op.before == kNone ? op.y : op.before; }
using After = std::function<void()>;
/// The layer's sums, and then what `activate` makes of the addresses, if that is not empty.
std::unique_ptr<Kernel> prepare(const Linear& op, const Context& in,
                                const std::function<After(const Operands&)>& activate);

// Several operations by one kernel (merge.cpp); null: they take a kernel each.
std::unique_ptr<Kernel> prepare_both(const ConvReluPoolGradW& w, const ConvReluPoolGradX& x, const Context& in);
/// dz: the gradient before the ReLU whose result is w.x, or kNone.
std::unique_ptr<Kernel> prepare_both(const LinearGradW& w, const LinearGradX& x, ValueId dz, const Context& in);
/// The sum itself, a gradient that only the batch norm reads, is not written.
std::unique_ptr<Kernel> prepare_both(const Add& sum, const BatchNormGrad& op, const Context& in);
/// The dropped elements, which only the layer norm reads, are not written.
std::unique_ptr<Kernel> prepare_both(const Dropout& drop, const LayerNorm& op, const Context& in);
std::unique_ptr<Kernel> prepare_both(const LayerNormGrad& op, const Dropout& drop, const Context& in);
/// The activation, which only the dropout reads, is not written.
std::unique_ptr<Kernel> prepare_both(const Linear& linear, const Dropout& drop, const Context& in);
/// The dropped gradient, which only that of the activation reads, is not written.
std::unique_ptr<Kernel> prepare_both(const Dropout& drop, const ActivationGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare_both(const Linear& linear, const SoftmaxCrossEntropy& loss, const Context& in);
std::unique_ptr<Kernel> prepare_both(const SquareSums& squares, const StepControl& control, const Context& in);
/// All are Orthogonalize with bf16 between products, of one optimizer: at most kernels::kMostMatrices.
std::unique_ptr<Kernel> prepare_all(std::span<const ComputeOp* const> ops, const Context& in);

}  // namespace ct::cuda
