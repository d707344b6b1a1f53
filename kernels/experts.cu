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

template <class T, int N>
__global__ void __launch_bounds__(kThreads) send(DispatchArgs a) {
  const ExpertsShape& s = a.shape;
  const int64_t slot = row_of_warp();
  if (slot >= s.experts * s.capacity) return;  // a whole warp
  const int64_t choice = a.sources[slot];
  T* to = static_cast<T*>(a.to[slot / s.capacity]) + slot % s.capacity * s.stride;
  const T* x = static_cast<const T*>(a.x) + choice / s.top_k * s.stride;
  const float weight = choice < 0 || a.weights == nullptr ? 1 : a.weights[choice];
  for (int64_t c = lane_of_warp() * N; c < s.stride; c += kWarp * N) {
    Pack<T, N> at{};
    if (choice >= 0) {
      at = *reinterpret_cast<const Pack<T, N>*>(x + c);
      for (int k = 0; k < N; ++k) at.at[k] = from_float<T>(weight * to_float(at.at[k]));
    }
    *reinterpret_cast<Pack<T, N>*>(to + c) = at;
  }
}

/// The row of an expert's results that lies in that slot.
template <class T>
__device__ __forceinline__ const T* row_in(const ExpertsShape& s, const void* const* from, int64_t slot) {
  return static_cast<const T*>(from[slot / s.capacity]) + slot % s.capacity * s.stride;
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) bring_back(CombineArgs a) {
  constexpr int kMostChoices = 2;
  const ExpertsShape& s = a.shape;
  const int64_t row = row_of_warp();
  if (row >= s.rows) return;  // a whole warp
  T* y = static_cast<T*>(a.y) + row * s.stride;
  const T* from[kMostChoices] = {};  // null: dropped
  float weights[kMostChoices] = {};
  float none = 0;  // what is not finite shows even where it was dropped
#pragma unroll
  for (int j = 0; j < kMostChoices; ++j) {
    if (j >= s.top_k) continue;
    const int32_t slot = a.slots[row * s.top_k + j];
    weights[j] = a.weights == nullptr ? 1 : a.weights[row * s.top_k + j];
    if (slot >= 0) from[j] = row_in<T>(s, a.from, slot);
    if (slot < 0 && a.weights != nullptr) none += 0 * weights[j];
  }
  for (int64_t c = lane_of_warp() * N; c < s.stride; c += kWarp * N) {
    Pack<T, N> at[kMostChoices] = {};
#pragma unroll
    for (int j = 0; j < kMostChoices; ++j)
      if (from[j] != nullptr) at[j] = *reinterpret_cast<const Pack<T, N>*>(from[j] + c);
    float sum[N];
    for (int k = 0; k < N; ++k) sum[k] = none;
#pragma unroll
    for (int j = 0; j < kMostChoices; ++j)
      if (from[j] != nullptr)
        for (int k = 0; k < N; ++k) sum[k] = __fmaf_rn(weights[j], to_float(at[j].at[k]), sum[k]);
    Pack<T, N> result;
    for (int k = 0; k < N; ++k) result.at[k] = from_float<T>(sum[k]);
    *reinterpret_cast<Pack<T, N>*>(y + c) = result;
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

/// A thread two blocks of four words, which share the schedule of the key; it moves N elements at a time.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) shake(JitterArgs a) {
  constexpr int kBlocks = 2, kElements = 4 * kBlocks;
  const int64_t block = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kBlocks, first = block * 4;
  if (first >= a.n) return;
  const T* x = static_cast<const T*>(a.x) + first;
  T* y = static_cast<T*>(a.y) + first;
  Pack<T, N> at[kElements / N] = {};
#pragma unroll
  for (int p = 0; p < kElements; p += N) {
    if (first + p + N <= a.n) {
      at[p / N] = *reinterpret_cast<const Pack<T, N>*>(x + p);
    } else {
#pragma unroll
      for (int k = 0; k < N - 1; ++k)
        if (first + p + k < a.n) at[p / N].at[k] = x[p + k];
    }
  }
  const DropoutKey key = *a.key;
  std::array<uint32_t, 4> words[kBlocks];
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) words[b] = routing_words(key, a.number, block + b);
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    T& element = at[i / N].at[i % N];
    element = from_float<T>(to_float(element) * jitter_factor(words[i / 4][i % 4]));
  }
#pragma unroll
  for (int p = 0; p < kElements; p += N) {
    if (first + p + N <= a.n) {
      *reinterpret_cast<Pack<T, N>*>(y + p) = at[p / N];
    } else {
#pragma unroll
      for (int k = 0; k < N - 1; ++k)
        if (first + p + k < a.n) y[p + k] = at[p / N].at[k];
    }
  }
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

template <class T, int N>
__global__ void __launch_bounds__(kThreads) mix(SoftmaxMixArgs a) {
  const int64_t row = row_of_warp();
  if (row >= a.rows) return;  // a whole warp
  const Shares shares = shares_of(a.scores + row * a.score_stride);
  for (int64_t c = row * a.stride + lane_of_warp() * N; c < (row + 1) * a.stride; c += kWarp * N) {
    auto left = *reinterpret_cast<const Pack<T, N>*>(static_cast<const T*>(a.a) + c);
    const auto right = *reinterpret_cast<const Pack<T, N>*>(static_cast<const T*>(a.b) + c);
    for (int k = 0; k < N; ++k)
      left.at[k] = from_float<T>(__fmaf_rn(shares.a, to_float(left.at[k]), shares.b * to_float(right.at[k])));
    *reinterpret_cast<Pack<T, N>*>(static_cast<T*>(a.y) + c) = left;
  }
}

/// A lane sums packs of N adjacent columns, of every warp's width of columns one; kAtOnce of them are loaded before the
/// first is waited for. Where accesses must not be Wide they are single elements of the same columns.
template <class T, int N, int kAtOnce, bool Wide>
__global__ void __launch_bounds__(kThreads) mix_grad(SoftmaxMixGradArgs a) {
  const int64_t row = row_of_warp();
  if (row >= a.rows) return;  // a whole warp
  const Shares shares = shares_of(a.scores + row * a.score_stride);
  const int64_t begin = row * a.stride, end = begin + a.stride;
  const auto load = [end](const void* from, int64_t c) {
    const T* x = static_cast<const T*>(from);
    if constexpr (Wide) {
      return c < end ? *reinterpret_cast<const Pack<T, N>*>(x + c) : Pack<T, N>{};
    } else {
      Pack<T, N> at{};
      for (int k = 0; k < N; ++k)
        if (c + k < end) at.at[k] = x[c + k];
      return at;
    }
  };
  const auto store = [end](void* to, int64_t c, const Pack<T, N>& at) {
    T* y = static_cast<T*>(to);
    if constexpr (Wide) {
      if (c < end) *reinterpret_cast<Pack<T, N>*>(y + c) = at;
    } else {
      for (int k = 0; k < N; ++k)
        if (c + k < end) y[c + k] = at.at[k];
    }
  };
  float sum = 0;
  for (int64_t c = begin + lane_of_warp() * N; c < end; c += kWarp * N * kAtOnce) {
    Pack<T, N> dy[kAtOnce], left[kAtOnce], right[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      dy[u] = load(a.dy, c + u * kWarp * N);
      left[u] = load(a.a, c + u * kWarp * N);
      right[u] = load(a.b, c + u * kWarp * N);
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      Pack<T, N> da, db;
      for (int k = 0; k < N; ++k) {
        const float grad = to_float(dy[u].at[k]);
        da.at[k] = from_float<T>(shares.a * grad);
        db.at[k] = from_float<T>(shares.b * grad);
        sum = __fmaf_rn(grad, to_float(left[u].at[k]) - to_float(right[u].at[k]), sum);
      }
      store(a.da, c + u * kWarp * N, da);
      store(a.db, c + u * kWarp * N, db);
    }
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
/// May rows be accessed in packs?
template <class T, class... Pointers>
bool in_packs(int64_t stride, const Pointers*... pointers) {
  return stride % Pack<T>::kSize == 0 && aligned_16(pointers...);
}
template <class T>
bool in_packs(const ExpertsShape& s, const void* const* experts, const void* rows) {
  bool result = in_packs<T>(s.stride, rows);
  for (int64_t i = 0; i < s.experts; ++i) result &= aligned_16(experts[i]);
  return result;
}
Grid a_warp_a_row(int64_t rows) {
  return {.blocks = static_cast<unsigned>(divide_up<int64_t>(rows, kWarps)), .threads = kThreads};
}

}  // namespace

cudaError_t dispatch(const DispatchArgs& a, cudaStream_t stream) {
  const ExpertsShape& s = a.shape;
  if (!sensible(s)) return cudaErrorInvalidValue;
  return with_type(s.type, [&]<class T>(T) {
    return launch(in_packs<T>(s, a.to, a.x) ? send<T, Pack<T>::kSize> : send<T, 1>,
                  a_warp_a_row(s.experts * s.capacity), stream, a);
  });
}

cudaError_t combine(const CombineArgs& a, cudaStream_t stream) {
  const ExpertsShape& s = a.shape;
  if (!sensible(s)) return cudaErrorInvalidValue;
  return with_type(s.type, [&]<class T>(T) {
    return launch(in_packs<T>(s, a.from, a.y) ? bring_back<T, Pack<T>::kSize> : bring_back<T, 1>, a_warp_a_row(s.rows),
                  stream, a);
  });
}

cudaError_t combine_grad_weights(const CombineGradWeightsArgs& a, cudaStream_t stream) {
  const ExpertsShape& s = a.shape;
  if (!sensible(s)) return cudaErrorInvalidValue;
  return with_type(s.type,
                   [&]<class T>(T) { return launch(weights_grad<T>, a_warp_a_row(s.rows * s.top_k), stream, a); });
}

cudaError_t jitter(const JitterArgs& a, cudaStream_t stream) {
  if (a.n < 0 || a.n > int64_t{1} << 34) return cudaErrorInvalidValue;
  const Grid grid{.blocks = static_cast<unsigned>(divide_up<int64_t>(divide_up<int64_t>(a.n, 8), kThreads)),
                  .threads = kThreads};
  return with_type(a.type, [&]<class T>(T) {
    return launch(aligned_16(a.x, a.y) ? shake<T, Pack<T>::kSize> : shake<T, 1>, grid, stream, a);
  });
}

cudaError_t softmax_mix(const SoftmaxMixArgs& a, cudaStream_t stream) {
  if (!sensible(a.rows, a.stride, a.score_stride)) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) {
    return launch(in_packs<T>(a.stride, a.a, a.b, a.y) ? mix<T, Pack<T>::kSize> : mix<T, 1>, a_warp_a_row(a.rows),
                  stream, a);
  });
}

cudaError_t softmax_mix_grad(const SoftmaxMixGradArgs& a, cudaStream_t stream) {
  if (!sensible(a.rows, a.stride, a.score_stride)) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) {
    constexpr int kAdjacent = sizeof(T) == 2 ? Pack<T>::kSize : 1, kAtOnce = sizeof(T) == 2 ? 1 : 4;
    const bool wide = in_packs<T>(a.stride, a.a, a.b, a.dy, a.da, a.db);
    return launch(wide ? mix_grad<T, kAdjacent, kAtOnce, true> : mix_grad<T, kAdjacent, kAtOnce, false>,
                  a_warp_a_row(a.rows), stream, a);
  });
}

}  // namespace ct::kernels
