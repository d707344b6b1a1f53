// The cases of every operation: a declaration each. op_cases() calls them for all alternatives of ComputeOp, so an
// operation that is not here does not compile.
#pragma once

#include "selftest/cases/case.h"

namespace ct::cases {

// Layers, in a type that they compute with.
void add_cases(Cases&, Of<Augment>, DType);
void add_cases(Cases&, Of<Patches>, DType);
void add_cases(Cases&, Of<Conv2d>, DType);
void add_cases(Cases&, Of<Conv2dGradW>, DType);
void add_cases(Cases&, Of<Conv2dGradX>, DType);
void add_cases(Cases&, Of<ConvReluPool>, DType);
void add_cases(Cases&, Of<ConvReluPoolGradW>, DType);
void add_cases(Cases&, Of<ConvReluPoolGradX>, DType);
void add_cases(Cases&, Of<MaxPool>, DType);
void add_cases(Cases&, Of<MaxPoolGrad>, DType);
void add_cases(Cases&, Of<AveragePool>, DType);
void add_cases(Cases&, Of<AveragePoolGrad>, DType);
void add_cases(Cases&, Of<BatchNorm>, DType);
void add_cases(Cases&, Of<BatchNormGrad>, DType);
void add_cases(Cases&, Of<LayerNorm>, DType);
void add_cases(Cases&, Of<LayerNormGrad>, DType);
void add_cases(Cases&, Of<Relu>, DType);
void add_cases(Cases&, Of<ReluGrad>, DType);
void add_cases(Cases&, Of<Gelu>, DType);
void add_cases(Cases&, Of<GeluGrad>, DType);
void add_cases(Cases&, Of<Flatten>, DType);
void add_cases(Cases&, Of<FlattenGrad>, DType);
void add_cases(Cases&, Of<Tokens>, DType);
void add_cases(Cases&, Of<TokensGrad>, DType);
void add_cases(Cases&, Of<TakeToken>, DType);
void add_cases(Cases&, Of<TakeTokenGrad>, DType);
void add_cases(Cases&, Of<Add>, DType);
void add_cases(Cases&, Of<Linear>, DType);
void add_cases(Cases&, Of<LinearGradX>, DType);
void add_cases(Cases&, Of<LinearGradW>, DType);
void add_cases(Cases&, Of<TreeGelu>, DType);
void add_cases(Cases&, Of<TreeGeluGrad>, DType);
void add_cases(Cases&, Of<Fff>, DType);
void add_cases(Cases&, Of<Attention>, DType);
void add_cases(Cases&, Of<AttentionGrad>, DType);
void add_cases(Cases&, Of<SequencePool>, DType);
void add_cases(Cases&, Of<SequencePoolGrad>, DType);
void add_cases(Cases&, Of<Dropout>, DType);
void add_cases(Cases&, Of<Dispatch>, DType);
void add_cases(Cases&, Of<Combine>, DType);
void add_cases(Cases&, Of<CombineGradWeights>, DType);
void add_cases(Cases&, Of<Jitter>, DType);
void add_cases(Cases&, Of<SoftmaxMix>, DType);
void add_cases(Cases&, Of<SoftmaxMixGrad>, DType);

// What has one type, or goes over types by itself.
void add_cases(Cases&, Of<Edit>);
void add_cases(Cases&, Of<Route>);
void add_cases(Cases&, Of<RouteGrad>);
void add_cases(Cases&, Of<SoftmaxCrossEntropy>);
void add_cases(Cases&, Of<TreePush>);
void add_cases(Cases&, Of<SquareSums>);
void add_cases(Cases&, Of<StepControl>);
void add_cases(Cases&, Of<Cast>);
void add_cases(Cases&, Of<Blend>);
void add_cases(Cases&, Of<Ema>);
void add_cases(Cases&, Of<LambMoments>);
void add_cases(Cases&, Of<TrustRatios>);
void add_cases(Cases&, Of<MuonMomentum>);
void add_cases(Cases&, Of<Orthogonalize>);

// Optimizers, whatever their rule.
void add_update_cases(Cases& cases, std::string_view operation);
template <class Rule>
void add_cases(Cases& cases, Of<RuleUpdate<Rule>>) {
  add_update_cases(cases, Rule::kName);
}

}  // namespace ct::cases
