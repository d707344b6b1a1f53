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

#define CT_PREPARE(Op) std::unique_ptr<Kernel> prepare(const Op& op, const Shapes& shape);
CT_LAYER_OPS(CT_PREPARE)
CT_OTHER_OPS(CT_PREPARE)
#undef CT_PREPARE
std::unique_ptr<Kernel> prepare_update(const Update& op, const rules::Any& rule, const Shapes& shape);
template <class Rule>
std::unique_ptr<Kernel> prepare(const RuleUpdate<Rule>& op, const Shapes& shape) {
  return prepare_update(op, op.rule, shape);
}

template <class... Ops>
struct Kinds {
  template <class Op>
  static constexpr int count = (std::is_same_v<Op, Ops> + ... + 0);
};
/// How operations run in bf16: with their own kernels (also operations without such values), with oneDNN (large linear
/// layers and convolutions), or in f32 between conversions (in_f32.h).
using InBf16 = Kinds<Edit, MaxPool, MaxPoolGrad, AveragePool, AveragePoolGrad, BatchNorm, BatchNormGrad, LayerNorm,
                     LayerNormGrad, Activate, ActivationGrad, TreeGelu, TreeGeluGrad, Fff, Attention, AttentionGrad,
                     SequencePool, SequencePoolGrad, Dropout, Route, RouteGrad, Dispatch, Combine, CombineGradWeights,
                     Jitter, SoftmaxMix, SoftmaxMixGrad, Add, Patches, Tokens, TokensGrad, TakeToken, TakeTokenGrad>;
using InBf16ByOneDnn = Kinds<Conv2d, Conv2dGradW, Conv2dGradX, Linear, LinearGradX, LinearGradW>;
using ThroughF32 =
    Kinds<Augment, ConvReluPool, ConvReluPoolGradW, ConvReluPoolGradX, Flatten, FlattenGrad, SoftmaxCrossEntropy>;

}  // namespace ct::cpu
