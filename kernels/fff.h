// What a fast feedforward layer has between its two products: GELU of the sums of those units that a row visits on its
// way through each tree, 0 at the others. A warp a row.
//
//   tree_gelu       y = x Phi(x) where visited, else 0
//   tree_gelu_grad  dx = dy (Phi(x) + x phi(x)) where visited, else 0
//
// Rows of `stride` elements, of which the first trees.width() count; pads are written as zeros. Operands
// must not overlap. Arithmetic in f32. With e bytes an element and v units that a row visits, tree_gelu moves
// rows (stride + 2 v) e, its gradient v rows e more. Any alignment. cudaErrorInvalidValue: a type, size or form that
// makes no sense.
#pragma once

#include "element.h"
#include "graph/fff_trees.h"

namespace ct::kernels {

struct TreeGeluArgs {
  Type type;
  int64_t rows, stride;
  FffTrees trees;
  const void* x;
  void* y;
};
cudaError_t tree_gelu(const TreeGeluArgs& args, cudaStream_t stream);

struct TreeGeluGradArgs {
  Type type;
  int64_t rows, stride;
  FffTrees trees;
  const void *x, *dy;
  void* dx;
};
cudaError_t tree_gelu_grad(const TreeGeluGradArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
