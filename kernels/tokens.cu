#include <limits>

#include "tokens.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kGroups = 16, kLanes = 16;  // of a block: groups side by side, images at a time

/// A thread N elements of y. In 32 bits, which are cheap to divide.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) add_positions(TokensArgs a, uint32_t groups, uint32_t count) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const uint32_t row = i / groups, tokens = static_cast<uint32_t>(a.tokens), image = row / tokens;
  const int64_t t = row - image * tokens, column = int64_t{i - row * groups} * N, own = a.class_token != nullptr;
  const T* from = static_cast<const T*>(a.class_token);
  if (t >= own) from = static_cast<const T*>(a.x) + (image * (a.tokens - own) + t - own) * a.x_stride;
  const auto position =
      *reinterpret_cast<const Pack<T, N>*>(static_cast<const T*>(a.positions) + t * a.stride + column);
  Pack<T, N> token{};
  if (column < a.columns) token = *reinterpret_cast<const Pack<T, N>*>(from + column);
  Pack<T, N> y;
  for (int k = 0; k < N; ++k)
    y.at[k] = from_float<T>(column + k < a.columns ? to_float(token.at[k]) + to_float(position.at[k]) : 0);
  static_cast<Pack<T, N>*>(a.y)[i] = y;
}

/// A block kGroups groups of N elements of dpositions, a thread one of them in every kLanes-th image.
template <class T, int N>
__global__ void __launch_bounds__(kGroups* kLanes) sum_positions(TokensGradArgs a, uint32_t groups, uint32_t count) {
  constexpr int kWidth = kGroups * N;
  const uint32_t i = blockIdx.x * kGroups + threadIdx.x;
  float sum[N] = {};
  if (i < count) {
    const uint32_t row = i / groups;
    const int64_t t = row, column = int64_t{i - row * groups} * N, own = a.dclass_token != nullptr;
    for (int64_t image = threadIdx.y; image < a.n; image += kLanes) {
      const T* dy = static_cast<const T*>(a.dy) + (image * a.tokens + t) * a.stride + column;
      const auto at = *reinterpret_cast<const Pack<T, N>*>(dy);
      for (int k = 0; k < N; ++k) sum[k] += to_float(at.at[k]);
      if (t >= own && column < a.x_stride) {
        T* dx = static_cast<T*>(a.dx) + (image * (a.tokens - own) + t - own) * a.x_stride + column;
        *reinterpret_cast<Pack<T, N>*>(dx) = at;
      }
    }
  }
  float* lanes = shared_memory<float>();  // [kLanes][kWidth]
  for (int k = 0; k < N; ++k) lanes[threadIdx.y * kWidth + threadIdx.x * N + k] = sum[k];
  __syncthreads();
  const int own = static_cast<int>(threadIdx.y * kGroups + threadIdx.x);
  const int64_t element = int64_t{blockIdx.x} * kWidth + own;
  if (own < kWidth && element < a.tokens * a.stride) {
    float total = lanes[own];
    for (int lane = 1; lane < kLanes; ++lane) total += lanes[lane * kWidth + own];
    a.dpositions[element] = total;
    if (a.dclass_token != nullptr && element < a.stride) a.dclass_token[element] = total;
  }
}

template <class Args>
bool makes_sense(const Args& a) {
  return a.n >= 0 && a.tokens >= 1 && a.columns >= 1 && a.x_stride >= a.columns && a.stride >= a.x_stride;
}
bool is_small(int64_t rows, int64_t groups) { return rows <= std::numeric_limits<int32_t>::max() / groups; }

}  // namespace

cudaError_t tokens(const TokensArgs& a, cudaStream_t stream) {
  if (!makes_sense(a)) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) {
    const auto start = [&](auto kernel, int64_t width) -> cudaError_t {
      const int64_t groups = a.stride / width;
      if (!is_small(a.n * a.tokens, groups)) return cudaErrorInvalidValue;
      const int64_t count = a.n * a.tokens * groups;
      const auto blocks = static_cast<unsigned>(divide_up<int64_t>(count, kThreads));
      return launch(kernel, {.blocks = blocks, .threads = kThreads}, stream, a, static_cast<uint32_t>(groups),
                    static_cast<uint32_t>(count));
    };
    constexpr int kWide = Pack<T>::kSize;
    const bool wide =
        a.stride % kWide == 0 && a.x_stride == a.stride && aligned_16(a.x, a.class_token, a.positions, a.y);
    return wide ? start(add_positions<T, kWide>, kWide) : start(add_positions<T, 1>, 1);
  });
}

cudaError_t tokens_grad(const TokensGradArgs& a, cudaStream_t stream) {
  if (!makes_sense(a)) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) {
    const auto start = [&](auto kernel, int64_t width) -> cudaError_t {
      const int64_t groups = a.stride / width;
      if (!is_small(a.tokens, groups)) return cudaErrorInvalidValue;
      const int64_t count = a.tokens * groups;
      const Grid grid{.blocks = static_cast<unsigned>(divide_up<int64_t>(count, kGroups)),
                      .threads = {kGroups, kLanes},
                      .shared_bytes = kLanes * kGroups * static_cast<size_t>(width) * sizeof(float)};
      return launch(kernel, grid, stream, a, static_cast<uint32_t>(groups), static_cast<uint32_t>(count));
    };
    constexpr int kWide = Pack<T>::kSize;
    const bool wide = a.stride % kWide == 0 && a.x_stride == a.stride && aligned_16(a.dy, a.dx);
    return wide ? start(sum_positions<T, kWide>, kWide) : start(sum_positions<T, 1>, 1);
  });
}

}  // namespace ct::kernels
