// Attention in f32 arithmetic: of f32 operands, and of 16-bit ones whose heads are too wide for tensor cores.
#include <cmath>

#include "attention_paths.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 2048;  // elements of a tile of tokens: kMine for each thread
constexpr int kMine = kTile / kThreads;
constexpr int kMostRows = 32;
constexpr int kResident = 5;  // blocks of a gradient that have room in an SM's shared memory: a bound of the registers

/// Rows (tokens) of a tile: 4 for the widest heads.
int rows_of_tile(int64_t width) {
  int rows = kMostRows;
  while (rows * width > kTile) rows /= 2;
  return rows;
}

/// Matrices in shared memory have rows that are one longer than they need, so that a column is spread over the banks.
__device__ __forceinline__ int row_of(const AttentionShape& s) { return static_cast<int>(s.width) + 1; }

/// Tokens first .. first + Rows of `from` [tokens][width], times scale; zeros where there are none.
template <int Rows, class T>
__device__ __forceinline__ void take_tile(const AttentionShape& s, const T* from, int64_t stride, int64_t first,
                                          float scale, float* to) {
  const int width = static_cast<int>(s.width), row = row_of(s);
  for (int at = static_cast<int>(threadIdx.x); at < Rows * width; at += kThreads) {
    const int i = at / width, d = at % width;
    to[i * row + d] = first + i < s.tokens ? to_float(from[(first + i) * stride + d]) * scale : 0;
  }
}

__device__ __forceinline__ float dot(const float* a, const float* b, int width) {
  float sum = 0;
  for (int d = 0; d < width; ++d) sum = __fmaf_rn(a[d], b[d], sum);
  return sum;
}

/// May token i attend to token j?
__device__ __forceinline__ bool meet(const AttentionShape& s, int64_t i, int64_t j) {
  return i < s.tokens && j < s.tokens && !(s.mask_diagonal && i == j);
}

/// Thread t has the elements t, t + kThreads, ... of a tile [Rows][width] in registers: body(k, i, d) for its k-th.
template <int Rows, class Body>
__device__ __forceinline__ void for_mine(int width, Body body) {
#pragma unroll
  for (int k = 0; k < kMine; ++k) {
    const int at = static_cast<int>(threadIdx.x) + k * kThreads;
    if (at < Rows * width) body(k, at / width, at % width);
  }
}

template <class T, int Rows>
__global__ void __launch_bounds__(kThreads) forward(AttentionArgs a, int tiles) {
  const AttentionShape& s = a.shape;
  const int width = static_cast<int>(s.width), row = row_of(s), weights_row = Rows + 1;
  auto* q = shared_memory<float>();
  float *keys = q + Rows * row, *values = keys + Rows * row, *weights = values + Rows * row;
  float *largest = weights + Rows * weights_row, *sums = largest + Rows, *factors = sums + Rows;
  const Place at = place_of_block(s, tiles);
  const int64_t all = s.heads * s.width, first = int64_t{at.tile} * Rows;
  const T* qkv = static_cast<const T*>(a.qkv) + at.image * s.tokens * s.qkv_stride + at.head * s.width;
  const int thread = static_cast<int>(threadIdx.x);

  take_tile<Rows>(s, qkv, s.qkv_stride, first, scale_of(a.scale, a.temperature), q);
  if (thread < Rows) largest[thread] = -INFINITY, sums[thread] = 0;
  float result[kMine] = {};
  for (int64_t key = 0; key < s.tokens; key += Rows) {
    __syncthreads();
    take_tile<Rows>(s, qkv + all, s.qkv_stride, key, 1.0f, keys);
    take_tile<Rows>(s, qkv + 2 * all, s.qkv_stride, key, 1.0f, values);
    __syncthreads();
    for (int pair = thread; pair < Rows * Rows; pair += kThreads) {
      const int i = pair / Rows, j = pair % Rows;
      weights[i * weights_row + j] = meet(s, first + i, key + j) ? dot(q + i * row, keys + j * row, width) : -INFINITY;
    }
    __syncthreads();
    if (thread < Rows && first + thread < s.tokens) {
      float* of = weights + thread * weights_row;
      const float before = largest[thread];
      float most = before;
      for (int j = 0; j < Rows; ++j) most = fmaxf(most, of[j]);
      const float factor = expf(before - most);
      float sum = sums[thread] * factor;
      for (int j = 0; j < Rows; ++j) sum += of[j] = expf(of[j] - most);
      largest[thread] = most, sums[thread] = sum, factors[thread] = factor;
    }
    __syncthreads();
    for_mine<Rows>(width, [&](int k, int i, int d) {
      if (first + i >= s.tokens) return;
      float sum = result[k] * factors[i];
      for (int j = 0; j < Rows; ++j) sum = __fmaf_rn(weights[i * weights_row + j], values[j * row + d], sum);
      result[k] = sum;
    });
  }
  T* y = static_cast<T*>(a.y) + at.image * s.tokens * s.y_stride;
  for_mine<Rows>(width, [&](int k, int i, int d) {
    if (first + i < s.tokens) y[(first + i) * s.y_stride + at.head * s.width + d] = from_float<T>(result[k] / sums[i]);
  });
  if (at.head == s.heads - 1) zero_pads(s, y, Rows, first, all, s.y_stride);
  if (a.log_sum_exp != nullptr && thread < Rows && first + thread < s.tokens)
    a.log_sum_exp[(at.image * s.heads + at.head) * s.tokens + first + thread] = largest[thread] + logf(sums[thread]);
}

/// What a pair of tokens needs to know of the one that attends.
struct Attending {
  const float *q, *dy;
  float log_sum_exp;
};
/// The weight of a pair and its gradient.
struct Weight {
  float p, dp;
};
__device__ __forceinline__ Weight weight_of(const Attending& of, const float* key, const float* value, int width) {
  return {expf(dot(of.q, key, width) - of.log_sum_exp), dot(of.dy, value, width)};
}

/// dq of a tile of tokens; of each the sum of p * dp, which the other kernel needs; and the tile's part of
/// dtemperature.
template <class T, int Rows>
__global__ void __launch_bounds__(kThreads, kResident)
    grad_queries(AttentionGradArgs a, int tiles, float* sums, float* parts) {
  const AttentionShape& s = a.shape;
  const int width = static_cast<int>(s.width), row = row_of(s), weights_row = Rows + 1;
  auto* q = shared_memory<float>();
  float *dy = q + Rows * row, *keys = dy + Rows * row, *values = keys + Rows * row, *weights = values + Rows * row;
  float *sum_of = weights + Rows * weights_row, *log_of = sum_of + Rows;
  const Place at = place_of_block(s, tiles);
  const int64_t all = s.heads * s.width, first = int64_t{at.tile} * Rows,
                of_head = (at.image * s.heads + at.head) * s.tokens;
  const T* qkv = static_cast<const T*>(a.qkv) + at.image * s.tokens * s.qkv_stride + at.head * s.width;
  const int thread = static_cast<int>(threadIdx.x);
  const float scale = scale_of(a.scale, a.temperature);
  take_tile<Rows>(s, qkv, s.qkv_stride, first, scale, q);
  take_tile<Rows>(s, static_cast<const T*>(a.dy) + at.image * s.tokens * s.y_stride + at.head * s.width, s.y_stride,
                  first, 1.0f, dy);
  const int queries = static_cast<int>(min(s.tokens - first, int64_t{Rows}));
  const bool has_row = thread < queries;
  if (thread < Rows) log_of[thread] = has_row ? a.log_sum_exp[of_head + first + thread] : 0;
  if (thread < Rows) sum_of[thread] = 0;

  // Twice over all keys: for the sum, and with it.
  float dq[kMine] = {};
  for (int pass = 0; pass < 2; ++pass) {
    const bool with_sum = pass == 1;
    for (int64_t key = 0; key < s.tokens; key += Rows) {
      __syncthreads();
      take_tile<Rows>(s, qkv + all, s.qkv_stride, key, 1.0f, keys);
      take_tile<Rows>(s, qkv + 2 * all, s.qkv_stride, key, 1.0f, values);
      __syncthreads();
      const int others = static_cast<int>(min(s.tokens - key, int64_t{Rows}));
      for (int pair = thread; pair < Rows * Rows; pair += kThreads) {
        const int i = pair / Rows, j = pair % Rows;
        float result = 0;
        if (i < queries && j < others && !(s.mask_diagonal && first == key && i == j)) {
          const Weight w = weight_of({q + i * row, dy + i * row, log_of[i]}, keys + j * row, values + j * row, width);
          result = w.p * (with_sum ? w.dp - sum_of[i] : w.dp);
        }
        weights[i * weights_row + j] = result;
      }
      __syncthreads();
      if (!with_sum) {
        if (has_row)
          for (int j = 0; j < Rows; ++j) sum_of[thread] += weights[thread * weights_row + j];
      } else {
        for_mine<Rows>(width, [&](int k, int i, int d) {
          for (int j = 0; j < Rows; ++j) dq[k] = __fmaf_rn(weights[i * weights_row + j], keys[j * row + d], dq[k]);
        });
      }
    }
  }
  if (has_row) sums[of_head + first + thread] = sum_of[thread];
  T* dqkv = static_cast<T*>(a.dqkv) + at.image * s.tokens * s.qkv_stride + at.head * s.width;
  for_mine<Rows>(width, [&](int k, int i, int d) {
    if (i < queries) dqkv[(first + i) * s.qkv_stride + d] = from_float<T>(dq[k] * scale);
  });
  if (parts == nullptr) return;
  // A logit's gradient times the logit, summed over all: the logit is a product of q, which dq is the sum of.
  __syncthreads();
  for_mine<Rows>(width, [&](int k, int i, int d) { dy[i * row + d] = dq[k]; });
  __syncthreads();
  if (thread < Rows) sum_of[thread] = dot(q + thread * row, dy + thread * row, width);
  __syncthreads();
  if (thread == 0) {
    float sum = 0;
    for (int i = 0; i < Rows; ++i) sum += sum_of[i];
    parts[blockIdx.x] = sum;
  }
}

/// dk and dv of a tile of tokens.
template <class T, int Rows>
__global__ void __launch_bounds__(kThreads) grad_keys(AttentionGradArgs a, int tiles, const float* sums) {
  const AttentionShape& s = a.shape;
  const int width = static_cast<int>(s.width), row = row_of(s), weights_row = Rows + 1;
  auto* q = shared_memory<float>();
  float *dy = q + Rows * row, *keys = dy + Rows * row, *values = keys + Rows * row, *weights = values + Rows * row;
  float *grads = weights + Rows * weights_row, *sum_of = grads + Rows * weights_row, *log_of = sum_of + Rows;
  const Place at = place_of_block(s, tiles);
  const int64_t all = s.heads * s.width, first = int64_t{at.tile} * Rows,
                of_head = (at.image * s.heads + at.head) * s.tokens;
  const T* qkv = static_cast<const T*>(a.qkv) + at.image * s.tokens * s.qkv_stride + at.head * s.width;
  const T* all_dy = static_cast<const T*>(a.dy) + at.image * s.tokens * s.y_stride + at.head * s.width;
  const int thread = static_cast<int>(threadIdx.x);
  const float scale = scale_of(a.scale, a.temperature);
  take_tile<Rows>(s, qkv + all, s.qkv_stride, first, 1.0f, keys);
  take_tile<Rows>(s, qkv + 2 * all, s.qkv_stride, first, 1.0f, values);
  float dk[kMine] = {}, dv[kMine] = {};
  for (int64_t query = 0; query < s.tokens; query += Rows) {
    __syncthreads();
    take_tile<Rows>(s, qkv, s.qkv_stride, query, scale, q);
    take_tile<Rows>(s, all_dy, s.y_stride, query, 1.0f, dy);
    if (thread < Rows) {
      const bool there = query + thread < s.tokens;
      log_of[thread] = there ? a.log_sum_exp[of_head + query + thread] : 0;
      sum_of[thread] = there ? sums[of_head + query + thread] : 0;
    }
    __syncthreads();
    for (int pair = thread; pair < Rows * Rows; pair += kThreads) {
      const int i = pair / Rows, j = pair % Rows;
      Weight w{0, 0};
      if (meet(s, query + i, first + j))
        w = weight_of({q + i * row, dy + i * row, log_of[i]}, keys + j * row, values + j * row, width);
      weights[i * weights_row + j] = w.p;
      grads[i * weights_row + j] = w.p * (w.dp - sum_of[i]);
    }
    __syncthreads();
    for_mine<Rows>(width, [&](int k, int j, int d) {
      for (int i = 0; i < Rows; ++i) {
        dk[k] = __fmaf_rn(grads[i * weights_row + j], q[i * row + d], dk[k]);
        dv[k] = __fmaf_rn(weights[i * weights_row + j], dy[i * row + d], dv[k]);
      }
    });
  }
  T* dqkv = static_cast<T*>(a.dqkv) + at.image * s.tokens * s.qkv_stride;
  for_mine<Rows>(width, [&](int k, int j, int d) {
    if (first + j >= s.tokens) return;
    T* to = dqkv + (first + j) * s.qkv_stride + at.head * s.width + d;
    to[all] = from_float<T>(dk[k]);
    to[2 * all] = from_float<T>(dv[k]);
  });
  if (at.head == s.heads - 1) zero_pads(s, dqkv, Rows, first, 3 * all, s.qkv_stride);
}

/// call(T{}, Number<tokens of a tile>{}) for the type and the width of the heads.
template <class Call>
cudaError_t with_tile(const AttentionShape& s, Call call) {
  const auto with = [&]<class T>(T t) {
    if constexpr (sizeof(T) == sizeof(float)) {
      if (rows_of_tile(s.width) == 32) return call(t, Number<32>{});
      if (rows_of_tile(s.width) == 16) return call(t, Number<16>{});
    }
    return rows_of_tile(s.width) == 8 ? call(t, Number<8>{}) : call(t, Number<4>{});
  };
  return with_type(s.type, with);
}

/// Of a kernel that has so many matrices of tokens and of weights in shared memory.
Grid grid_of(const AttentionShape& s, int rows, int matrices, int weights) {
  const int64_t floats = matrices * rows * (s.width + 1) + int64_t{weights} * rows * (rows + 1) + 3 * rows;
  return {.blocks = static_cast<unsigned>(s.n * s.heads * f32_tiles(s)),
          .threads = kThreads,
          .shared_bytes = static_cast<size_t>(floats) * sizeof(float)};
}

}  // namespace

int64_t f32_tiles(const AttentionShape& s) { return divide_up<int64_t>(s.tokens, rows_of_tile(s.width)); }

cudaError_t attention_in_f32(const AttentionArgs& a, cudaStream_t stream) {
  const AttentionShape& s = a.shape;
  return with_tile(s, [&]<class T, class Tile>(T, Tile) {
    return launch(forward<T, Tile::value>, grid_of(s, Tile::value, /*matrices=*/3, /*weights=*/1), stream, a,
                  static_cast<int>(f32_tiles(s)));
  });
}

cudaError_t attention_grad_in_f32(const AttentionGradArgs& a, float* sums, float* parts, cudaStream_t stream) {
  const AttentionShape& s = a.shape;
  const int tiles = static_cast<int>(f32_tiles(s));
  return with_tile(s, [&]<class T, class Tile>(T, Tile) {
    const cudaError_t queries =
        launch(grad_queries<T, Tile::value>, grid_of(s, Tile::value, /*matrices=*/4, /*weights=*/1), stream, a, tiles,
               sums, parts);
    if (queries != cudaSuccess) return queries;
    return launch(grad_keys<T, Tile::value>, grid_of(s, Tile::value, /*matrices=*/4, /*weights=*/2), stream, a, tiles,
                  sums);
  });
}

}  // namespace ct::kernels
