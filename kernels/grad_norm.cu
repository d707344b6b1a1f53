#include "element.h"
#include "grad_norm.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kWidth = Pack<float>::kSize;

__device__ __forceinline__ double add_square(float x, double sum) {
  const double value = x;
  return __fma_rn(value, value, sum);
}

/// One block per chunk.
__global__ void __launch_bounds__(kThreads) square_sums_kernel(SquareSumsArgs args) {
  wait_for_previous();
  const SquareChunk chunk = args.chunks[blockIdx.x];
  const float* x = args.grads + chunk.begin;
  const int64_t n = chunk.end - chunk.begin;
  const bool aligned = reinterpret_cast<uintptr_t>(x) % 16 == 0;
  double sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x * kWidth; i < n; i += kThreads * kWidth) {
    if (aligned && i + kWidth <= n) {
      const auto pack = *reinterpret_cast<const Pack<float>*>(x + i);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum = add_square(pack.at[k], sum);
    } else {
      for (int64_t k = i; k < n && k < i + kWidth; ++k) sum = add_square(x[k], sum);
    }
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2) sum += __shfl_down_sync(kAllLanes, sum, distance);

  auto* warp_sums = shared_memory<double>();
  if (threadIdx.x % kWarp == 0) warp_sums[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kWarps; ++warp) sum += warp_sums[warp];
  args.sums[chunk.sum] = sum;
}

}  // namespace

cudaError_t square_sums(const SquareSumsArgs& args, cudaStream_t stream) {
  const Grid grid{
      .blocks = static_cast<unsigned>(args.count), .threads = kThreads, .shared_bytes = kWarps * sizeof(double)};
  return launch_early(square_sums_kernel, grid, stream, args);
}

}  // namespace ct::kernels
