// The operations of an evaluation as nodes of ONNX's operator set 17. Every operation that computes a value of the
// forward pass has one convert(): without it the program does not compile. Those that ONNX cannot describe, or that are
// of training alone, have one in refused.cpp, which says so.
//
// What an operation computes is defined in graph/ops.h, what a node computes in ONNX's Operators.md.
#pragma once

#include "onnx/nodes.h"

namespace ct::onnx {

/// Operations of a forward pass, but for the loss.
template <class Op>
concept Forward =
    Op::kFacts.role == Role::input || Op::kFacts.role == Role::layer || Op::kFacts.role == Role::evaluation;

// pictures.cpp
void convert(const Augment& op, Nodes& nodes);
void convert(const Patches& op, Nodes& nodes);

// convolutions.cpp
void convert(const Conv2d& op, Nodes& nodes);
void convert(const ConvReluPool& op, Nodes& nodes);
void convert(const MaxPool& op, Nodes& nodes);
void convert(const AveragePool& op, Nodes& nodes);

// norms.cpp
void convert(const BatchNorm& op, Nodes& nodes);
void convert(const LayerNorm& op, Nodes& nodes);

// dense.cpp
void convert(const Activate& op, Nodes& nodes);
void convert(const Add& op, Nodes& nodes);
void convert(const Flatten& op, Nodes& nodes);
void convert(const Linear& op, Nodes& nodes);

// tokens.cpp
void convert(const Tokens& op, Nodes& nodes);
void convert(const TakeToken& op, Nodes& nodes);
void convert(const SequencePool& op, Nodes& nodes);

// attention.cpp
void convert(const Attention& op, Nodes& nodes);

// refused.cpp: Error(usage) with what cannot be exported, or an internal error if no evaluation has the operation
void convert(const Fff& op, Nodes& nodes);
void convert(const Route& op, Nodes& nodes);
void convert(const Dispatch& op, Nodes& nodes);
void convert(const Combine& op, Nodes& nodes);
void convert(const SoftmaxMix& op, Nodes& nodes);
void convert(const Edit& op, Nodes& nodes);
void convert(const Dropout& op, Nodes& nodes);
void convert(const Jitter& op, Nodes& nodes);
void convert(const TreeGelu& op, Nodes& nodes);

// Parts that several of them share.

/// activation(x)
std::string activated(Activation activation, const std::string& x, Nodes& nodes);
/// Planar images x [N][C][H][W], moved: pixel (y, x) is that at (y + dy, x + dx), 0 outside the image.
std::string moved(const std::string& x, int64_t dy, int64_t dx, Nodes& nodes);

}  // namespace ct::onnx
