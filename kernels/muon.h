// The steps between the products of Muon's orthogonalisation. Matrices are f32 with row strides in elements; rows of
// `left` have pads. Functions return only errors of the launch.
#pragma once

#include "launch.h"

namespace ct::kernels {

constexpr int kMuonNormBlocks = 128;
/// Bytes of the workspace that muon_begin() needs.
constexpr size_t kMuonWorkspaceBytes = kMuonNormBlocks * sizeof(double);

struct MuonMatrix {
  int64_t rows, columns, x_stride, left_stride;
  float *x, *left;
};

/// left = x / max(|x|, eps), with pads 0. |x| includes the pads between rows of x, which must be zeros. It is computed
/// in f64, in a fixed order. Moves 12 bytes per element.
cudaError_t muon_begin(const MuonMatrix& m, double eps, double* workspace, cudaStream_t stream);

/// to = fma(a, from, b to). Moves 12 bytes per element.
struct ScaledSumArgs {
  float a;
  const float* from;
  float b;
  float* to;
  int64_t n;
};
cudaError_t scaled_sum(const ScaledSumArgs& args, cudaStream_t stream);

/// x = scale left; the pads of x do not change. Moves 8 bytes per element.
cudaError_t muon_end(const MuonMatrix& m, float scale, cudaStream_t stream);

}  // namespace ct::kernels
