// Fast feedforward layers (graph/fff_trees.h): the operation between the two products in training, and the whole layer
// in evaluation, which computes only the units that a row visits.
//
// Layouts: rows of every matrix are padded to 16 elements; pads are zero in operands and results. x [rows][in], w_in
// [units][in], b_in f32 [units], w_out [out][units], y [rows][out]; sums, values and their gradients [rows][units].
// Arithmetic is f32; uint16_t is bf16. All operands are 64-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/fff_trees.h"

namespace ct::cpu {

/// y = GELU(x) at the units that a row of sums x visits, else 0.
void tree_gelu(const FffTrees& trees, int64_t rows, const float* x, float* y);
void tree_gelu(const FffTrees& trees, int64_t rows, const uint16_t* x, uint16_t* y);

/// dx = dy (Phi(x) + x phi(x)) at these units, else 0.
void tree_gelu_grad(const FffTrees& trees, int64_t rows, const float* x, const float* dy, float* dx);
void tree_gelu_grad(const FffTrees& trees, int64_t rows, const uint16_t* x, const uint16_t* dy, uint16_t* dx);

/// Sums and values stay f32. With bf16 a row may therefore visit different units from those in training if two sums are
/// nearly equal.
template <class T>
struct FffArgs {
  FffTrees trees;
  int64_t rows, in, out;
  const T *x, *w_in;
  const float* b_in;
  const T* w_out;
  T* y;
  std::byte* workspace;  // 64-byte aligned
};
/// Rows that are computed at a time.
constexpr int kFffRowsTogether = 4;
/// Bytes of workspace: w_out with the units as rows, so that the weights of a unit are contiguous, and the rows of x
/// that are computed at a time.
size_t fff_workspace_bytes(const FffTrees& trees, int64_t in, int64_t out, size_t element_bytes);
void fff(const FffArgs<float>& args);
void fff(const FffArgs<uint16_t>& args);

}  // namespace ct::cpu
