#include <algorithm>
#include <climits>
#include <cmath>

#include "sequence_pool.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kInFlight = 8;  // loads that a thread starts before it waits for the first

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

/// A thread N channels at a time, of all tokens in order.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) pool(SequencePoolArgs a) {
  const SequencePoolShape& s = a.shape;
  auto* p = shared_memory<float>();
  softmax<T>(s, a.score, p);
  const T* x = static_cast<const T*>(a.x) + blockIdx.x * s.tokens * s.stride;
  T* y = static_cast<T*>(a.y) + blockIdx.x * s.stride;
  const int tokens = static_cast<int>(s.tokens);
  for (int64_t c = int64_t{threadIdx.x} * N; c < s.stride; c += int64_t{blockDim.x} * N) {
    float sum[N] = {};
#pragma unroll 1
    for (int first = 0; first < tokens; first += kInFlight) {
      Pack<T, N> at[kInFlight] = {};
#pragma unroll
      for (int u = 0; u < kInFlight; ++u)
        if (first + u < tokens) at[u] = *reinterpret_cast<const Pack<T, N>*>(x + (first + u) * s.stride + c);
#pragma unroll
      for (int u = 0; u < kInFlight; ++u)
        if (first + u < tokens)
          for (int k = 0; k < N; ++k) sum[k] = __fmaf_rn(p[first + u], to_float(at[u].at[k]), sum[k]);
    }
    Pack<T, N> result;
    for (int k = 0; k < N; ++k) result.at[k] = from_float<T>(c + k < s.channels ? sum[k] : 0);
    *reinterpret_cast<Pack<T, N>*>(y + c) = result;
  }
}

/// One warp per token. A lane sums packs of N adjacent channels, of every warp's width of channels one; kAtOnce of them
/// are loaded before the first is waited for. Where accesses must not be Wide they are single elements of the same
/// channels.
template <class T, int N, int kAtOnce, bool Wide>
__global__ void __launch_bounds__(kThreads) pool_grad(SequencePoolGradArgs a) {
  const SequencePoolShape& s = a.shape;
  const auto load = [&s](const T* row, int64_t c) {
    if constexpr (Wide) {
      return c < s.stride ? *reinterpret_cast<const Pack<T, N>*>(row + c) : Pack<T, N>{};
    } else {
      Pack<T, N> at{};
      for (int k = 0; k < N; ++k)
        if (c + k < s.channels) at.at[k] = row[c + k];
      return at;
    }
  };
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
    for (int64_t c = lane * N; c < s.stride; c += kWarp * N * kAtOnce) {
      Pack<T, N> at[kAtOnce], grads[kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        at[u] = load(x + t * s.stride, c + u * kWarp * N);
        grads[u] = load(dy, c + u * kWarp * N);
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const int64_t first = c + u * kWarp * N;
        for (int k = 0; k < N; ++k) {
          const bool there = first + k < s.channels;
          const float grad = there ? to_float(grads[u].at[k]) : 0;
          if (there) sum = __fmaf_rn(to_float(at[u].at[k]), grad, sum);
          grads[u].at[k] = from_float<T>(p[t] * grad);
        }
        T* to = dx + t * s.stride + first;
        if constexpr (Wide) {
          if (first < s.stride) *reinterpret_cast<Pack<T, N>*>(to) = grads[u];
        } else {
          for (int k = 0; k < N; ++k)
            if (first + k < s.stride) to[k] = grads[u].at[k];
        }
      }
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
Grid grid_of(const SequencePoolShape& s, int64_t floats, unsigned threads = kThreads) {
  return {.blocks = static_cast<unsigned>(s.n),
          .threads = threads,
          .shared_bytes = static_cast<size_t>(floats) * sizeof(float)};
}

}  // namespace

cudaError_t sequence_pool(const SequencePoolArgs& a, cudaStream_t stream) {
  const SequencePoolShape& s = a.shape;
  if (!sensible(s)) return cudaErrorInvalidValue;
  return with_type(s.type, [&]<class T>(T) {
    const auto start = [&](auto kernel, int64_t width) {
      const int64_t threads = divide_up<int64_t>(divide_up(s.stride, width), kWarp) * kWarp;
      return launch(kernel, grid_of(s, s.tokens, static_cast<unsigned>(std::min<int64_t>(threads, kThreads))), stream,
                    a);
    };
    constexpr int kWide = 4;  // in any type, for enough threads of an image
    return s.stride % Pack<T>::kSize == 0 && aligned_16(a.x, a.y) ? start(pool<T, kWide>, kWide) : start(pool<T, 1>, 1);
  });
}

cudaError_t sequence_pool_grad(const SequencePoolGradArgs& a, cudaStream_t stream) {
  const SequencePoolShape& s = a.shape;
  if (!sensible(s)) return cudaErrorInvalidValue;
  return with_type(s.type, [&]<class T>(T) {
    constexpr int kAdjacent = sizeof(T) == 2 ? Pack<T>::kSize : 1, kAtOnce = sizeof(T) == 2 ? 1 : 8;
    const bool wide = s.stride % Pack<T>::kSize == 0 && aligned_16(a.x, a.dy, a.dx);
    return launch(wide ? pool_grad<T, kAdjacent, kAtOnce, true> : pool_grad<T, kAdjacent, kAtOnce, false>,
                  grid_of(s, 2 * s.tokens + 1), stream, a);
  });
}

}  // namespace ct::kernels
