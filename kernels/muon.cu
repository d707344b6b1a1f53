#include "muon.h"
#include "muon_norm.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = kMuonThreads;

__global__ void __launch_bounds__(kThreads) square_sum_kernel(const float* x, int64_t n, double* sums) {
  add_squares(x, n, static_cast<int>(blockIdx.x), sums);
}

/// One block per row.
__global__ void __launch_bounds__(kThreads) begin_kernel(MuonMatrix m, double eps, const double* sums) {
  const float share = share_of_norm(sums, eps);
  const float* from = m.x + int64_t{blockIdx.x} * m.x_stride;
  float* to = m.left + int64_t{blockIdx.x} * m.left_stride;
  for (int64_t i = threadIdx.x; i < m.left_stride; i += kThreads) to[i] = i < m.columns ? share * from[i] : 0.0f;
}

__global__ void __launch_bounds__(kThreads) end_kernel(MuonMatrix m, float scale) {
  const float* from = m.left + int64_t{blockIdx.x} * m.left_stride;
  float* to = m.x + int64_t{blockIdx.x} * m.x_stride;
  for (int64_t i = threadIdx.x; i < m.columns; i += kThreads) to[i] = scale * from[i];
}

__global__ void __launch_bounds__(kThreads) scaled_sum_kernel(ScaledSumArgs args) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < args.n) args.to[i] = __fmaf_rn(args.a, args.from[i], args.b * args.to[i]);
}

Grid rows_of(const MuonMatrix& m) {
  return {.blocks = static_cast<unsigned>(m.rows), .threads = kThreads, .shared_bytes = kMuonSharedBytes};
}

}  // namespace

cudaError_t muon_begin(const MuonMatrix& m, double eps, double* workspace, cudaStream_t stream) {
  const Grid grid{.blocks = kMuonNormBlocks, .threads = kThreads, .shared_bytes = kMuonSharedBytes};
  const cudaError_t error =
      launch(square_sum_kernel, grid, stream, static_cast<const float*>(m.x), m.rows * m.x_stride, workspace);
  if (error != cudaSuccess) return error;
  return launch(begin_kernel, rows_of(m), stream, m, eps, static_cast<const double*>(workspace));
}

cudaError_t scaled_sum(const ScaledSumArgs& args, cudaStream_t stream) {
  const Grid grid{.blocks = static_cast<unsigned>(divide_up<int64_t>(args.n, kThreads)), .threads = kThreads};
  return launch(scaled_sum_kernel, grid, stream, args);
}

cudaError_t muon_end(const MuonMatrix& m, float scale, cudaStream_t stream) {
  return launch(end_kernel, rows_of(m), stream, m, scale);
}

}  // namespace ct::kernels
