// The CPU's prepared operations, one function an operation kind: layers.cpp, linear.cpp, convolution.h, and by family
// attention.cpp, sequence_pool.cpp, dropout.cpp, experts.cpp, fff.cpp, optimizer.cpp, trust.cpp, muon.cpp,
// grad_norm.cpp, step_control.cpp, tree_sum.cpp.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>

#include "device/backend.h"

namespace ct::cpu {

class ConvolutionAlgorithms;

/// Shapes and element types of the values of a program, and the algorithms of its convolutions.
class Shapes {
 public:
  Shapes(const std::vector<Value>& values, ConvolutionAlgorithms& convolutions)
      : values_(values), convolutions_(convolutions) {}
  const Shape& operator()(ValueId id) const { return values_[static_cast<size_t>(id)].shape; }
  DType dtype(ValueId id) const { return values_[static_cast<size_t>(id)].dtype; }
  bool bf16(ValueId id) const { return dtype(id) == DType::bf16; }
  const std::vector<Value>& values() const { return values_; }
  ConvolutionAlgorithms& convolutions() const { return convolutions_; }

 private:
  const std::vector<Value>& values_;
  ConvolutionAlgorithms& convolutions_;
};

std::unique_ptr<Kernel> prepare(const Edit& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Augment& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Patches& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const ConvReluPool& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const ConvReluPoolGradW& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const ConvReluPoolGradX& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Conv2d& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Conv2dGradW& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Conv2dGradX& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const MaxPool& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const MaxPoolGrad& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const AveragePool& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const AveragePoolGrad& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const BatchNorm& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const BatchNormGrad& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const LayerNorm& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const LayerNormGrad& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Relu& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const ReluGrad& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Gelu& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const GeluGrad& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Flatten& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const FlattenGrad& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Tokens& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const TokensGrad& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const TakeToken& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const TakeTokenGrad& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Linear& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const LinearGradX& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const LinearGradW& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const TreeGelu& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const TreeGeluGrad& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Fff& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Attention& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const AttentionGrad& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const SequencePool& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const SequencePoolGrad& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Dropout& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Route& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const RouteGrad& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Dispatch& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Combine& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const CombineGradWeights& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Jitter& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const SoftmaxMix& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const SoftmaxMixGrad& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Add& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const SoftmaxCrossEntropy& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Cast& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const TreePush& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const SquareSums& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const StepControl& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare_update(const Update& op, const rules::Any& rule, const Shapes& shape);
template <class Rule>
std::unique_ptr<Kernel> prepare(const RuleUpdate<Rule>& op, const Shapes& shape) {
  return prepare_update(op, op.rule, shape);
}
std::unique_ptr<Kernel> prepare(const LambMoments& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const TrustRatios& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const MuonMomentum& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Orthogonalize& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Blend& op, const Shapes& shape);
std::unique_ptr<Kernel> prepare(const Ema& op, const Shapes& shape);

template <class... Ops>
struct Kinds {
  template <class Op>
  static constexpr int count = (std::is_same_v<Op, Ops> + ... + 0);
};
/// Kernels of their own for bf16 (or for what has no such numbers), oneDNN's (of linear layers: the large ones'), or
/// f32 ones between conversions (in_f32.h).
using InBf16 =
    Kinds<Edit, MaxPool, MaxPoolGrad, AveragePool, AveragePoolGrad, BatchNorm, BatchNormGrad, LayerNorm, LayerNormGrad,
          Relu, ReluGrad, Gelu, GeluGrad, TreeGelu, TreeGeluGrad, Fff, Attention, AttentionGrad, SequencePool,
          SequencePoolGrad, Dropout, Route, RouteGrad, Dispatch, Combine, CombineGradWeights, Jitter, SoftmaxMix,
          SoftmaxMixGrad, Add, Patches, Tokens, TokensGrad, TakeToken, TakeTokenGrad>;
using InBf16ByOneDnn = Kinds<Conv2d, Conv2dGradW, Conv2dGradX, Linear, LinearGradX, LinearGradW>;
using ThroughF32 =
    Kinds<Augment, ConvReluPool, ConvReluPoolGradW, ConvReluPoolGradX, Flatten, FlattenGrad, SoftmaxCrossEntropy>;

}  // namespace ct::cpu
