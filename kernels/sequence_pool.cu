#include <climits>
#include <cmath>

#include "sequence_pool.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;

__device__ __forceinline__ float sum_of_warp(float x) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(kAllLanes, x, lanes);
  return x;
}
__device__ __forceinline__ float most_of_warp(float x) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, lanes));
  return x;
}

/// p = softmax of the block's image's scores, for all threads of the block.
template <class T>
__device__ __forceinline__ void softmax(const SequencePoolShape& s, const void* scores, float* p) {
  const T* score = static_cast<const T*>(scores) + blockIdx.x * s.tokens * s.score_stride;
  const int tokens = static_cast<int>(s.tokens), lane = static_cast<int>(threadIdx.x);
  if (lane < kWarp) {
    float most = -INFINITY, sum = 0;
    for (int t = lane; t < tokens; t += kWarp) most = fmaxf(most, to_float(score[t * s.score_stride]));
    most = most_of_warp(most);
    for (int t = lane; t < tokens; t += kWarp) sum += p[t] = expf(to_float(score[t * s.score_stride]) - most);
    sum = sum_of_warp(sum);
    for (int t = lane; t < tokens; t += kWarp) p[t] /= sum;
  }
  __syncthreads();
}

template <class T>
__global__ void __launch_bounds__(kThreads) pool(SequencePoolArgs a) {
  const SequencePoolShape& s = a.shape;
  auto* p = shared_memory<float>();
  softmax<T>(s, a.score, p);
  const T* x = static_cast<const T*>(a.x) + blockIdx.x * s.tokens * s.stride;
  T* y = static_cast<T*>(a.y) + blockIdx.x * s.stride;
  for (int64_t c = threadIdx.x; c < s.stride; c += kThreads) {
    float sum = 0;
    if (c < s.channels)
      for (int64_t t = 0; t < s.tokens; ++t) sum = __fmaf_rn(p[t], to_float(x[t * s.stride + c]), sum);
    y[c] = from_float<T>(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) pool_grad(SequencePoolGradArgs a) {
  const SequencePoolShape& s = a.shape;
  auto* p = shared_memory<float>();
  float *g = p + s.tokens, *mean = g + s.tokens;
  softmax<T>(s, a.score, p);
  const T* x = static_cast<const T*>(a.x) + blockIdx.x * s.tokens * s.stride;
  const T* dy = static_cast<const T*>(a.dy) + blockIdx.x * s.stride;
  T* dx = static_cast<T*>(a.dx) + blockIdx.x * s.tokens * s.stride;
  T* dscore = static_cast<T*>(a.dscore) + blockIdx.x * s.tokens * s.score_stride;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int64_t t = warp; t < s.tokens; t += kWarps) {
    float sum = 0;
    for (int64_t c = lane; c < s.stride; c += kWarp) {
      const bool there = c < s.channels;
      const float grad = there ? to_float(dy[c]) : 0;
      if (there) sum = __fmaf_rn(to_float(x[t * s.stride + c]), grad, sum);
      dx[t * s.stride + c] = from_float<T>(p[t] * grad);
    }
    sum = sum_of_warp(sum);
    if (lane == 0) g[t] = sum;
  }
  __syncthreads();
  if (warp == 0) {
    float sum = 0;
    for (int64_t t = lane; t < s.tokens; t += kWarp) sum = __fmaf_rn(p[t], g[t], sum);
    sum = sum_of_warp(sum);
    if (lane == 0) *mean = sum;
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < s.tokens * s.score_stride; i += kThreads) {
    const int64_t t = i / s.score_stride;
    dscore[i] = from_float<T>(i % s.score_stride == 0 ? p[t] * (g[t] - *mean) : 0);
  }
}

bool sensible(const SequencePoolShape& s) {
  return s.n >= 0 && s.n <= INT_MAX && s.tokens >= 1 && s.tokens <= kMostPooledTokens && s.channels >= 1 &&
         s.stride >= s.channels && s.score_stride >= 1;
}
Grid grid_of(const SequencePoolShape& s, int64_t floats) {
  return {.blocks = static_cast<unsigned>(s.n),
          .threads = kThreads,
          .shared_bytes = static_cast<size_t>(floats) * sizeof(float)};
}

}  // namespace

cudaError_t sequence_pool(const SequencePoolArgs& a, cudaStream_t stream) {
  if (!sensible(a.shape)) return cudaErrorInvalidValue;
  return with_type(a.shape.type,
                   [&]<class T>(T) { return launch(pool<T>, grid_of(a.shape, a.shape.tokens), stream, a); });
}

cudaError_t sequence_pool_grad(const SequencePoolGradArgs& a, cudaStream_t stream) {
  if (!sensible(a.shape)) return cudaErrorInvalidValue;
  return with_type(a.shape.type, [&]<class T>(T) {
    return launch(pool_grad<T>, grid_of(a.shape, 2 * a.shape.tokens + 1), stream, a);
  });
}

}  // namespace ct::kernels
