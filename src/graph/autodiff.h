// Reverse-mode differentiation of a graph: one small rule for each operation, applied in reverse order.
#pragma once

#include "graph/graph.h"

namespace ct {

/// Appends the operations that turn the gradient `seed` of `result` into the gradient of every parameter
/// (Parameter::grad is set). The gradients of a value with several consumers are added.
void differentiate(Graph& g, ValueId result, ValueId seed);

}  // namespace ct
