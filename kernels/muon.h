// What lies between the products of Muon's orthogonalisation. Matrices are f32, their rows `stride` elements apart;
// rows of `left` have pads. Errors: of the launch.
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

/// left = x / max(|x|, eps), its pads 0. |x| is over all rows with what lies between them, which must be zeros: in f64,
/// element e to accumulator e % (kMuonNormBlocks 256), whose order of addition is fixed. Moves 12 bytes an element.
cudaError_t muon_begin(const MuonMatrix& m, double eps, double* workspace, cudaStream_t stream);

/// to = fma(a, from, b to). Moves 12 bytes an element.
struct ScaledSumArgs {
  float a;
  const float* from;
  float b;
  float* to;
  int64_t n;
};
cudaError_t scaled_sum(const ScaledSumArgs& args, cudaStream_t stream);

/// x = scale left; what lies between the rows of x stays. Moves 8 bytes an element.
cudaError_t muon_end(const MuonMatrix& m, float scale, cudaStream_t stream);

}  // namespace ct::kernels
