// Muon's orthogonalisation (Jordan, 2024) of several matrices at once, with products on tensor cores (mma.h):
//
//   x = x / max(|x|, eps), then `steps` times  g = x x^T,  p = b g + c g g,  x = a x + p x;  at the end x = scale x
//
// on x or, of a matrix with more rows than columns, on its transpose. Between products x, g and p are bf16; sums, the
// norm's share and the result are f32, and the norm is computed in f64 as by muon_begin(). Each step is three launches
// for all matrices. A matrix has the same bits in any group.
//
// Matrices [rows][columns] are f32 with a row stride in elements; pads between rows must be zeros, and do not change.
// cudaErrorInvalidValue: a size or a count that is not positive, or more than kMostMatrices. Otherwise errors of the
// launch.
#pragma once

#include "launch.h"

namespace ct::kernels {

constexpr int kMostMatrices = 32;  // they travel as arguments of the launch, of which there are at most 4 KB

struct OrthogonalizeMatrix {
  float* x;
  int rows, columns, stride;
  float scale;
};

/// Moves, of each matrix in each step, about 2 (3 + columns / 64) bytes per element from cache or memory.
struct OrthogonalizeArgs {
  const OrthogonalizeMatrix* matrices;  // in host memory
  int count;
  int steps;
  float a, b, c;
  double eps;
  void* workspace;  // aligned to 16 bytes
};
size_t orthogonalize_workspace_bytes(const OrthogonalizeMatrix* matrices, int count);
cudaError_t orthogonalize(const OrthogonalizeArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
