// Reverse-mode differentiation of a graph: one small rule for each operation, applied in reverse order.
#pragma once

#include "graph/graph.h"

namespace ct {

/// Appends the operations that turn the gradient `seed` of `result` into the gradient of every parameter that is not
/// frozen (Parameter::grad is set). The gradients of a value with several consumers are added. Nothing is appended for
/// operations at and below which no parameter learns.
void differentiate(Graph& g, ValueId result, ValueId seed);

}  // namespace ct
