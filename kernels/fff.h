// The pass between the two products of a fast feedforward layer: GELU for the units that a row visits in each tree, 0
// for all others. A thread follows a row; its warp writes the zeros, 16 bytes at a time if the result is aligned to 16
// bytes.
//
//   tree_gelu       y = x Phi(x) where visited, else 0
//   tree_gelu_grad  dx = dy (Phi(x) + x phi(x)) where visited, else 0
//
// Rows have `stride` elements; the first trees.width() are units, and the rest are pads, written as zeros. Operands
// must not overlap. Arithmetic is f32. For e bytes per element and v units that a row visits, tree_gelu moves rows *
// (stride + 2 * v) * e bytes, its gradient rows * v * e more. Operands may have any alignment. cudaErrorInvalidValue:
// an invalid type, size or form.
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
