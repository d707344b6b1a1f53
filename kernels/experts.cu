#include <climits>
#include <cmath>

#include "experts.h"
#include "graph/routing_draws.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;

__device__ __forceinline__ int64_t row_of_warp() { return int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp; }
__device__ __forceinline__ int lane_of_warp() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ __forceinline__ float sum_of_warp(float x) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(kAllLanes, x, lanes);
  return x;
}

template <class T>
__global__ void __launch_bounds__(kThreads) send(DispatchArgs a) {
  const ExpertsShape& s = a.shape;
  const int64_t slot = row_of_warp();
  if (slot >= s.experts * s.capacity) return;  // a whole warp
  const int64_t choice = a.sources[slot];
  T* to = static_cast<T*>(a.to[slot / s.capacity]) + slot % s.capacity * s.stride;
  const T* x = static_cast<const T*>(a.x) + choice / s.top_k * s.stride;
  const float weight = choice < 0 || a.weights == nullptr ? 1 : a.weights[choice];
  for (int64_t c = lane_of_warp(); c < s.stride; c += kWarp)
    to[c] = from_float<T>(choice < 0 ? 0 : weight * to_float(x[c]));
}

/// The row of an expert's results that lies in that slot.
template <class T>
__device__ __forceinline__ const T* row_in(const ExpertsShape& s, const void* const* from, int64_t slot) {
  return static_cast<const T*>(from[slot / s.capacity]) + slot % s.capacity * s.stride;
}

template <class T>
__global__ void __launch_bounds__(kThreads) bring_back(CombineArgs a) {
  const ExpertsShape& s = a.shape;
  const int64_t row = row_of_warp();
  if (row >= s.rows) return;  // a whole warp
  T* y = static_cast<T*>(a.y) + row * s.stride;
  float none = 0;  // what is not finite shows even where it was dropped
  for (int64_t j = row * s.top_k; j < (row + 1) * s.top_k; ++j)
    if (a.slots[j] < 0 && a.weights != nullptr) none += 0 * a.weights[j];
  for (int64_t c = lane_of_warp(); c < s.stride; c += kWarp) {
    float sum = none;
    for (int64_t j = row * s.top_k; j < (row + 1) * s.top_k; ++j)
      if (const int32_t slot = a.slots[j]; slot >= 0)
        sum = __fmaf_rn(a.weights == nullptr ? 1.0f : a.weights[j], to_float(row_in<T>(s, a.from, slot)[c]), sum);
    y[c] = from_float<T>(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) weights_grad(CombineGradWeightsArgs a) {
  const ExpertsShape& s = a.shape;
  const int64_t choice = row_of_warp();
  if (choice >= s.rows * s.top_k) return;  // a whole warp
  const int32_t slot = a.slots[choice];
  float sum = 0;
  if (slot >= 0) {
    const T *from = row_in<T>(s, a.from, slot), *dy = static_cast<const T*>(a.dy) + choice / s.top_k * s.stride;
    for (int64_t c = lane_of_warp(); c < s.stride; c += kWarp) sum = __fmaf_rn(to_float(from[c]), to_float(dy[c]), sum);
  }
  sum = sum_of_warp(sum);
  if (lane_of_warp() == 0) a.dweights[choice] = sum;
}

/// A thread a block of four words.
template <class T>
__global__ void __launch_bounds__(kThreads) shake(JitterArgs a) {
  const int64_t block = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (block * 4 >= a.n) return;
  const std::array<uint32_t, 4> words = routing_words(*a.key, a.number, block);
  const T* x = static_cast<const T*>(a.x) + block * 4;
  T* y = static_cast<T*>(a.y) + block * 4;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (block * 4 + i < a.n) y[i] = from_float<T>(to_float(x[i]) * jitter_factor(words[i]));
}

/// The softmax of a row's two scores.
struct Shares {
  float a, b;
};
__device__ __forceinline__ Shares shares_of(const float* scores) {
  const float most = scores[0] < scores[1] ? scores[1] : scores[0];
  const float a = expf(scores[0] - most), b = expf(scores[1] - most);
  return {a / (a + b), b / (a + b)};
}

template <class T>
__global__ void __launch_bounds__(kThreads) mix(SoftmaxMixArgs a) {
  const int64_t row = row_of_warp();
  if (row >= a.rows) return;  // a whole warp
  const Shares shares = shares_of(a.scores + row * a.score_stride);
  for (int64_t c = row * a.stride + lane_of_warp(); c < (row + 1) * a.stride; c += kWarp)
    static_cast<T*>(a.y)[c] = from_float<T>(__fmaf_rn(shares.a, to_float(static_cast<const T*>(a.a)[c]),
                                                      shares.b * to_float(static_cast<const T*>(a.b)[c])));
}

template <class T>
__global__ void __launch_bounds__(kThreads) mix_grad(SoftmaxMixGradArgs a) {
  const int64_t row = row_of_warp();
  if (row >= a.rows) return;  // a whole warp
  const Shares shares = shares_of(a.scores + row * a.score_stride);
  float sum = 0;
  for (int64_t c = row * a.stride + lane_of_warp(); c < (row + 1) * a.stride; c += kWarp) {
    const float dy = to_float(static_cast<const T*>(a.dy)[c]);
    static_cast<T*>(a.da)[c] = from_float<T>(shares.a * dy);
    static_cast<T*>(a.db)[c] = from_float<T>(shares.b * dy);
    sum = __fmaf_rn(dy, to_float(static_cast<const T*>(a.a)[c]) - to_float(static_cast<const T*>(a.b)[c]), sum);
  }
  const float slope = shares.a * shares.b * sum_of_warp(sum);
  float* dscores = a.dscores + row * a.score_stride;
  for (int64_t c = lane_of_warp(); c < a.score_stride; c += kWarp) dscores[c] = c == 0 ? slope : c == 1 ? -slope : 0;
}

bool sensible(const ExpertsShape& s) {
  return s.rows >= 1 && s.rows <= kMostRoutedRows && s.stride >= 1 && s.experts >= 1 && s.experts <= kMostExperts &&
         s.capacity >= 1 && s.capacity <= s.rows && (s.top_k == 1 || s.top_k == 2);
}
bool sensible(int64_t rows, int64_t stride, int64_t score_stride) {
  return rows >= 0 && rows <= INT_MAX && stride >= 1 && score_stride >= 2;
}
Grid a_warp_a_row(int64_t rows) {
  return {.blocks = static_cast<unsigned>(divide_up<int64_t>(rows, kWarps)), .threads = kThreads};
}

}  // namespace

cudaError_t dispatch(const DispatchArgs& a, cudaStream_t stream) {
  const ExpertsShape& s = a.shape;
  if (!sensible(s)) return cudaErrorInvalidValue;
  return with_type(s.type,
                   [&]<class T>(T) { return launch(send<T>, a_warp_a_row(s.experts * s.capacity), stream, a); });
}

cudaError_t combine(const CombineArgs& a, cudaStream_t stream) {
  if (!sensible(a.shape)) return cudaErrorInvalidValue;
  return with_type(a.shape.type,
                   [&]<class T>(T) { return launch(bring_back<T>, a_warp_a_row(a.shape.rows), stream, a); });
}

cudaError_t combine_grad_weights(const CombineGradWeightsArgs& a, cudaStream_t stream) {
  const ExpertsShape& s = a.shape;
  if (!sensible(s)) return cudaErrorInvalidValue;
  return with_type(s.type,
                   [&]<class T>(T) { return launch(weights_grad<T>, a_warp_a_row(s.rows * s.top_k), stream, a); });
}

cudaError_t jitter(const JitterArgs& a, cudaStream_t stream) {
  if (a.n < 0 || a.n > int64_t{1} << 34) return cudaErrorInvalidValue;
  const Grid grid{.blocks = static_cast<unsigned>(divide_up<int64_t>(divide_up<int64_t>(a.n, 4), kThreads)),
                  .threads = kThreads};
  return with_type(a.type, [&]<class T>(T) { return launch(shake<T>, grid, stream, a); });
}

cudaError_t softmax_mix(const SoftmaxMixArgs& a, cudaStream_t stream) {
  if (!sensible(a.rows, a.stride, a.score_stride)) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) { return launch(mix<T>, a_warp_a_row(a.rows), stream, a); });
}

cudaError_t softmax_mix_grad(const SoftmaxMixGradArgs& a, cudaStream_t stream) {
  if (!sensible(a.rows, a.stride, a.score_stride)) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) { return launch(mix_grad<T>, a_warp_a_row(a.rows), stream, a); });
}

}  // namespace ct::kernels
