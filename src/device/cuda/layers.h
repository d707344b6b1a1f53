// A GPU's prepared operations, one function an operation kind: layers.cpp, and by family attention.cpp,
// sequence_pool.cpp, dropout.cpp, experts.cpp, fff.cpp, optimizer.cpp, trust.cpp, muon.cpp, grad_norm.cpp,
// step_control.cpp, tree_sum.cpp.
#pragma once

#include <concepts>
#include <memory>
#include <string>

#include "device/cuda/cuda_backend.h"

namespace ct::cuda {

/// While an operation is prepared: the backend it will run on, shapes and element types of the program's values.
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

std::unique_ptr<Kernel> prepare(const Edit& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Augment& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Patches& op, const Context& in);
std::unique_ptr<Kernel> prepare(const ConvReluPool& op, const Context& in);
std::unique_ptr<Kernel> prepare(const ConvReluPoolGradW& op, const Context& in);
std::unique_ptr<Kernel> prepare(const ConvReluPoolGradX& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Conv2d& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Conv2dGradW& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Conv2dGradX& op, const Context& in);
std::unique_ptr<Kernel> prepare(const MaxPool& op, const Context& in);
std::unique_ptr<Kernel> prepare(const MaxPoolGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare(const AveragePool& op, const Context& in);
std::unique_ptr<Kernel> prepare(const AveragePoolGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare(const BatchNorm& op, const Context& in);
std::unique_ptr<Kernel> prepare(const BatchNormGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare(const LayerNorm& op, const Context& in);
std::unique_ptr<Kernel> prepare(const LayerNormGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Relu& op, const Context& in);
std::unique_ptr<Kernel> prepare(const ReluGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Gelu& op, const Context& in);
std::unique_ptr<Kernel> prepare(const GeluGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Flatten& op, const Context& in);
std::unique_ptr<Kernel> prepare(const FlattenGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Tokens& op, const Context& in);
std::unique_ptr<Kernel> prepare(const TokensGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare(const TakeToken& op, const Context& in);
std::unique_ptr<Kernel> prepare(const TakeTokenGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Linear& op, const Context& in);
std::unique_ptr<Kernel> prepare(const LinearGradX& op, const Context& in);
std::unique_ptr<Kernel> prepare(const LinearGradW& op, const Context& in);
std::unique_ptr<Kernel> prepare(const TreeGelu& op, const Context& in);
std::unique_ptr<Kernel> prepare(const TreeGeluGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Fff& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Attention& op, const Context& in);
std::unique_ptr<Kernel> prepare(const AttentionGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare(const SequencePool& op, const Context& in);
std::unique_ptr<Kernel> prepare(const SequencePoolGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Dropout& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Route& op, const Context& in);
std::unique_ptr<Kernel> prepare(const RouteGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Dispatch& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Combine& op, const Context& in);
std::unique_ptr<Kernel> prepare(const CombineGradWeights& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Jitter& op, const Context& in);
std::unique_ptr<Kernel> prepare(const SoftmaxMix& op, const Context& in);
std::unique_ptr<Kernel> prepare(const SoftmaxMixGrad& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Add& op, const Context& in);
std::unique_ptr<Kernel> prepare(const SoftmaxCrossEntropy& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Cast& op, const Context& in);
std::unique_ptr<Kernel> prepare(const TreePush& op, const Context& in);
std::unique_ptr<Kernel> prepare(const SquareSums& op, const Context& in);
std::unique_ptr<Kernel> prepare(const StepControl& op, const Context& in);
std::unique_ptr<Kernel> prepare_update(const Update& op, const rules::Any& rule, const Context& in);
template <class Rule>
std::unique_ptr<Kernel> prepare(const RuleUpdate<Rule>& op, const Context& in) {
  return prepare_update(op, op.rule, in);
}
std::unique_ptr<Kernel> prepare(const LambMoments& op, const Context& in);
std::unique_ptr<Kernel> prepare(const TrustRatios& op, const Context& in);
std::unique_ptr<Kernel> prepare(const MuonMomentum& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Orthogonalize& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Blend& op, const Context& in);
std::unique_ptr<Kernel> prepare(const Ema& op, const Context& in);

}  // namespace ct::cuda
