// Attention in bf16 and f16 on tensor cores. A warp computes kBlock tokens of a tile against kBlock of another at a
// time.
#include <cmath>

#include "attention_paths.h"
#include "mma.h"

namespace ct::kernels {
namespace {

/// Tokens of the largest tile: four matrices of such tiles fit into shared memory.
template <int kWidth>
constexpr int kMostTokens = kWidth <= 64 ? 80 : 32;
template <int kWidth>
constexpr int kMostThreads = kMostTokens<kWidth> / kBlock* kWarp;
/// Of an SM at the same time, so that some compute while others load: a bound of the registers.
template <int kWidth>
constexpr int kLeastBlocks = kWidth <= 64 ? 3 : 4;
/// Elements between the rows of a tile.
template <int kWidth>
constexpr int kRow = kWidth + 8;

/// Tiles of queries and of keys are the same, as long as each other and a multiple of kBlock.
struct Tiling {
  int tile, tiles;
  bool wide;  // may 16 bytes be accessed at once?
};

/// Of the running thread.
struct Part {
  Place at;
  int64_t all, first, of_head;  // columns of all heads; the block's first token; the head's first row of all tokens
  int warp_row, row;            // in the tile: the warp's first row, and the first of the lane's two; they are 8 apart
  bool is_first_of_row;         // of the four lanes that have its elements
  __device__ __forceinline__ Part(const AttentionShape& s, const Tiling& tiling)
      : at(place_of_block(s, tiling.tiles)),
        all(s.heads * s.width),
        first(int64_t{at.tile} * tiling.tile),
        of_head((at.image * s.heads + at.head) * s.tokens),
        warp_row(static_cast<int>(threadIdx.x) / kWarp * kBlock),
        row(warp_row + lane_of_warp() / 4),
        is_first_of_row(lane_of_warp() % 4 == 0) {}
};

/// A tile of `from` [tokens][width], from token `first` on, and where it goes.
template <class T>
struct Move {
  const T* from;
  int64_t stride, first;
  T* to;
};

/// A thread has kWidth / kBlock times 8 elements of each tile, for a warp has kBlock rows; zeros where there are none.
/// Narrow tiles are loaded all at once.
template <int kWidth, class T, int kCount>
__device__ __forceinline__ void load_tiles(const AttentionShape& s, const Tiling& tiling,
                                           const Move<T> (&moves)[kCount]) {
  constexpr int kOfRow = kWidth / 8, kMine = kWidth / kBlock, kAtOnce = kWidth <= 64 ? kCount : 1;
  static_assert(kWarp % kOfRow == 0);
  // A thread's elements are in the same columns of each row.
  const int thread = static_cast<int>(threadIdx.x), row = thread / kOfRow, column = thread % kOfRow * 8,
            rows = static_cast<int>(blockDim.x) / kOfRow;
#pragma unroll
  for (int m = 0; m < kCount; m += kAtOnce) {
    uint4 mine[kAtOnce][kMine];
    const auto for_mine = [&](auto body) {
#pragma unroll
      for (int l = 0; l < kAtOnce; ++l)
#pragma unroll
        for (int k = 0; k < kMine; ++k) body(moves[m + l], mine[l][k], row + k * rows);
    };
    for_mine([&](const Move<T>& move, uint4& to, int i) {
      to = make_uint4(0, 0, 0, 0);
      if (move.first + i >= s.tokens) return;
      const T* from = move.from + (move.first + i) * move.stride + column;
      if (tiling.wide) {
        if (column < s.width) to = *reinterpret_cast<const uint4*>(from);
      } else {
        Pack<T> elements;
        for (int e = 0; e < 8; ++e) elements.at[e] = column + e < s.width ? from[e] : from_float<T>(0);
        memcpy(&to, &elements, sizeof elements);
      }
    });
    for_mine([&](const Move<T>& move, const uint4& from, int i) {
      *reinterpret_cast<uint4*>(move.to + i * kRow<kWidth> + column) = from;
    });
  }
}

/// The warp's rows of a result, from token `first` on, to `to` [tokens][width].
template <class T, int kWidth>
__device__ __forceinline__ void store_rows(const AttentionShape& s, const Tiling& tiling,
                                           const Block (&result)[kWidth / kBlock], T* to, int64_t stride,
                                           int64_t first) {
#pragma unroll
  for (int n = 0; n < kWidth / kBlock; ++n) {
    const RowPart part = row_part_of<T>(result[n]);
    const int64_t i = first + part.row;
    const int d = n * kBlock + part.column;
    if (i >= s.tokens) continue;
    T* at = to + i * stride + d;
    if (tiling.wide) {
      if (d < s.width) *reinterpret_cast<uint4*>(at) = part.of;
    } else {
      Pack<T> elements;
      memcpy(&elements, &part.of, sizeof elements);
      for (int e = 0; e < 8; ++e)
        if (d + e < s.width) at[e] = elements.at[e];
    }
  }
}

/// The warp's rows of a tile as left operands, from its first row on.
template <int kWidth, class T>
__device__ __forceinline__ void load_rows(Left (&rows)[kWidth / kBlock], const T* first) {
#pragma unroll
  for (int k = 0; k < kWidth / kBlock; ++k) load_left(rows[k], first + k * kBlock, kRow<kWidth>);
}

/// dot += the warp's rows times kBlock rows of a tile, transposed.
template <int kWidth, class T>
__device__ __forceinline__ void add_dots(const Left (&rows)[kWidth / kBlock], const T* others, Block& dot) {
#pragma unroll
  for (int k = 0; k < kWidth / kBlock; ++k) {
    Right right;
    load_right_of_transposed(right, others + k * kBlock, kRow<kWidth>);
    multiply<T>(dot, rows[k], right);
  }
}

/// Rows g and g + 8 times a factor each.
template <int kWidth>
__device__ __forceinline__ void scale_rows(Block (&rows)[kWidth / kBlock], const float (&factors)[2]) {
#pragma unroll
  for (int n = 0; n < kWidth / kBlock; ++n)
    for_elements([&](int h, int e, int half, int) { rows[n][h][e] *= factors[half]; });
}

/// sum += weights rows, rounded weights of the warp's rows and kBlock rows of a tile.
template <int kWidth, class T>
__device__ __forceinline__ void add_weighted(const Block& weights, const T* rows, Block (&sum)[kWidth / kBlock]) {
  Left left;
  as_left<T>(left, weights);
#pragma unroll
  for (int n = 0; n < kWidth / kBlock; ++n) {
    Right right;
    load_right(right, rows + n * kBlock, kRow<kWidth>);
    multiply<T>(sum[n], left, right);
  }
}

/// Which keys of a tile a row of the tile of queries attends to.
struct Meeting {
  int keys;      // of the tile
  bool on_self;  // the tiles are one and the diagonal is masked
  __device__ __forceinline__ Meeting(const AttentionShape& s, const Tiling& tiling, int64_t first_query,
                                     int64_t first_key)
      : keys(static_cast<int>(min(s.tokens - first_key, int64_t{tiling.tile}))),
        on_self(s.mask_diagonal && first_query == first_key) {}
  __device__ __forceinline__ bool operator()(int i, int j) const { return j < keys && !(on_self && i == j); }
};

/// The value of four lanes that have the elements of one row.
__device__ __forceinline__ float sum_of_row(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}
__device__ __forceinline__ float most_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}

template <class T, int kWidth>
__global__ void __launch_bounds__(kMostThreads<kWidth>, kLeastBlocks<kWidth>)
    forward_16(AttentionArgs a, Tiling tiling) {
  const AttentionShape& s = a.shape;
  const Part my(s, tiling);
  const int size = tiling.tile * kRow<kWidth>;
  T *queries = shared_memory<T>(), *keys = queries + size, *values = keys + size;
  const T* qkv = static_cast<const T*>(a.qkv) + my.at.image * s.tokens * s.qkv_stride + my.at.head * s.width;
  const float scale = scale_of(a.scale, a.temperature);

  load_tiles<kWidth, T, 3>(s, tiling,
                           {{qkv, s.qkv_stride, my.first, queries},
                            {qkv + my.all, s.qkv_stride, 0, keys},
                            {qkv + 2 * my.all, s.qkv_stride, 0, values}});
  __syncthreads();
  float most[2] = {-INFINITY, -INFINITY}, sums[2] = {};  // of the lane's two rows; sums: of this lane's keys
  Block result[kWidth / kBlock] = {};
  for (int64_t key = 0; key < s.tokens; key += tiling.tile) {
    if (key > 0) {
      __syncthreads();
      load_tiles<kWidth, T, 1>(s, tiling, {{qkv + my.all, s.qkv_stride, key, keys}});
      load_tiles<kWidth, T, 1>(s, tiling, {{qkv + 2 * my.all, s.qkv_stride, key, values}});
      __syncthreads();
    }
    Left rows[kWidth / kBlock];
    load_rows<kWidth>(rows, queries + my.warp_row * kRow<kWidth>);
    const Meeting meet(s, tiling, my.first, key);
#pragma unroll 1
    for (int j = 0; j < meet.keys; j += kBlock) {
      Block weights = {};
      add_dots<kWidth>(rows, keys + j * kRow<kWidth>, weights);
      float most_here[2] = {-INFINITY, -INFINITY}, factors[2];
      for_elements([&](int n, int e, int half, int column) {
        float& x = weights[n][e];
        x = meet(my.row + 8 * half, j + column) ? x * scale : -INFINITY;
        most_here[half] = fmaxf(most_here[half], x);
      });
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float before = most[half];
        most[half] = fmaxf(before, most_of_row(most_here[half]));
        factors[half] = expf(before - most[half]);
        sums[half] *= factors[half];
      }
      for_elements([&](int n, int e, int half, int) {
        float& x = weights[n][e];
        sums[half] += x = expf(x - most[half]);
      });
      scale_rows<kWidth>(result, factors);
      add_weighted<kWidth>(weights, values + j * kRow<kWidth>, result);
    }
  }
  float factors[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = sum_of_row(sums[half]);
    const int64_t i = my.first + my.row + 8 * half;
    if (a.log_sum_exp != nullptr && my.is_first_of_row && i < s.tokens)
      a.log_sum_exp[my.of_head + i] = most[half] + logf(sum);
    factors[half] = 1 / sum;
  }
  scale_rows<kWidth>(result, factors);
  T* y = static_cast<T*>(a.y) + my.at.image * s.tokens * s.y_stride;
  store_rows<T, kWidth>(s, tiling, result, y + my.at.head * s.width, s.y_stride, my.first + my.warp_row);
  if (my.at.head == s.heads - 1) zero_pads(s, y, tiling.tile, my.first, my.all, s.y_stride);
}

/// What a gradient has in shared memory.
template <class T, int kWidth>
struct GradTiles {
  T *queries, *dy, *keys, *values;
  float *log_of, *sum_of, *of_warp;  // of each query: log_sum_exp, infinite where there is none; sum of p * dp
  __device__ __forceinline__ explicit GradTiles(const Tiling& tiling)
      : queries(shared_memory<T>()),
        dy(queries + tiling.tile * kRow<kWidth>),
        keys(dy + tiling.tile * kRow<kWidth>),
        values(keys + tiling.tile * kRow<kWidth>),
        log_of(reinterpret_cast<float*>(values + tiling.tile * kRow<kWidth>)),
        sum_of(log_of + tiling.tile),
        of_warp(sum_of + tiling.tile) {}
};

/// The parts of a gradient's operands and result that belong to a block's image and head.
template <class T>
struct GradOperands {
  const T *qkv, *dy;
  T* dqkv;
  __device__ __forceinline__ GradOperands(const AttentionGradArgs& a, const Place& at)
      : qkv(static_cast<const T*>(a.qkv) + at.image * a.shape.tokens * a.shape.qkv_stride + at.head * a.shape.width),
        dy(static_cast<const T*>(a.dy) + at.image * a.shape.tokens * a.shape.y_stride + at.head * a.shape.width),
        dqkv(static_cast<T*>(a.dqkv) + at.image * a.shape.tokens * a.shape.qkv_stride + at.head * a.shape.width) {}
};

/// Of each query of a tile that begins with token `first`.
__device__ __forceinline__ void take_logs(const AttentionGradArgs& a, const Tiling& tiling, const Part& my,
                                          int64_t first, float* log_of) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < tiling.tile) log_of[i] = first + i < a.shape.tokens ? a.log_sum_exp[my.of_head + first + i] : INFINITY;
}

/// The warp's queries.
template <class T, int kWidth>
struct QueryRows {
  Left q[kWidth / kBlock], dy[kWidth / kBlock];
  float log_of[2];
  __device__ __forceinline__ QueryRows(const GradTiles<T, kWidth>& tiles, const Part& my)
      : log_of{tiles.log_of[my.row], tiles.log_of[my.row + 8]} {
    load_rows<kWidth>(q, tiles.queries + my.warp_row * kRow<kWidth>);
    load_rows<kWidth>(dy, tiles.dy + my.warp_row * kRow<kWidth>);
  }
};

/// Of the warp's queries and a tile of keys: body(j, p, dp) for the keys j .. j + kBlock, with their weights and these
/// weights' gradients.
template <class T, int kWidth, class Body>
__device__ __forceinline__ void for_weights(const GradTiles<T, kWidth>& tiles, const Part& my,
                                            const QueryRows<T, kWidth>& rows, const Meeting& meet, float scale,
                                            Body body) {
#pragma unroll 1
  for (int j = 0; j < meet.keys; j += kBlock) {
    Block p = {}, dp = {};
    add_dots<kWidth>(rows.q, tiles.keys + j * kRow<kWidth>, p);
    add_dots<kWidth>(rows.dy, tiles.values + j * kRow<kWidth>, dp);
    for_elements([&](int n, int e, int half, int column) {
      float& x = p[n][e];
      x = meet(my.row + 8 * half, j + column) ? expf(x * scale - rows.log_of[half]) : 0;
    });
    body(j, p, dp);
  }
}

/// sums += p * dp, of this lane's keys.
template <class T, int kWidth>
__device__ __forceinline__ void add_to_sums(const GradTiles<T, kWidth>& tiles, const Part& my,
                                            const QueryRows<T, kWidth>& rows, const Meeting& meet, float scale,
                                            float (&sums)[2]) {
  for_weights(tiles, my, rows, meet, scale, [&](int, const Block& p, const Block& dp) {
    for_elements([&](int n, int e, int half, int) { sums[half] = __fmaf_rn(p[n][e], dp[n][e], sums[half]); });
  });
}

/// dq += the gradients of logits, p * (dp - sum), times keys.
template <class T, int kWidth>
__device__ __forceinline__ void add_to_queries(const GradTiles<T, kWidth>& tiles, const Part& my,
                                               const QueryRows<T, kWidth>& rows, const Meeting& meet, float scale,
                                               const float (&sums)[2], Block (&dq)[kWidth / kBlock]) {
  for_weights(tiles, my, rows, meet, scale, [&](int j, const Block& p, Block& dp) {
    for_elements([&](int n, int e, int half, int) { dp[n][e] = p[n][e] * (dp[n][e] - sums[half]); });
    add_weighted<kWidth>(dp, tiles.keys + j * kRow<kWidth>, dq);
  });
}

/// dk and dv of the warp's keys += of all queries of a tile; of_temperature += a logit times its gradient, of this
/// lane.
template <class T, int kWidth>
__device__ __forceinline__ void add_to_keys(const GradTiles<T, kWidth>& tiles, const Part& my, int queries_of_tile,
                                            const Meeting& meet, float scale, Block (&dk)[kWidth / kBlock],
                                            Block (&dv)[kWidth / kBlock], float& of_temperature) {
  const T *keys = tiles.keys + my.warp_row * kRow<kWidth>, *values = tiles.values + my.warp_row * kRow<kWidth>;
#pragma unroll 1
  for (int i = 0; i < queries_of_tile; i += kBlock) {
    const T *queries = tiles.queries + i * kRow<kWidth>, *dy = tiles.dy + i * kRow<kWidth>;
    Block p = {}, dp = {};       // of keys and queries: transposed
    Left rows[kWidth / kBlock];  // loaded again each time, for registers are scarce
    load_rows<kWidth>(rows, keys);
    add_dots<kWidth>(rows, queries, p);
    load_rows<kWidth>(rows, values);
    add_dots<kWidth>(rows, dy, dp);
    for_elements([&](int n, int e, int half, int column) {
      const float logit = p[n][e] * scale;
      const bool met = meet(i + column, my.row + 8 * half);
      p[n][e] = met ? expf(logit - tiles.log_of[i + column]) : 0;
      dp[n][e] = p[n][e] * (dp[n][e] - tiles.sum_of[i + column]);
      of_temperature = __fmaf_rn(dp[n][e], met ? logit : 0, of_temperature);
    });
    add_weighted<kWidth>(p, dy, dv);
    add_weighted<kWidth>(dp, queries, dk);
  }
}

/// dq of the block's tile, from its sum without the scale.
template <class T, int kWidth>
__device__ __forceinline__ void store_queries(const AttentionShape& s, const Tiling& tiling, const Part& my,
                                              float scale, Block (&dq)[kWidth / kBlock], const GradOperands<T>& of) {
  scale_rows<kWidth>(dq, {scale, scale});
  store_rows<T, kWidth>(s, tiling, dq, of.dqkv, s.qkv_stride, my.first + my.warp_row);
}

/// dk and dv of the block's tile, from their sums, dk's without the scale; pads; and dtemperature's part.
template <class T, int kWidth>
__device__ __forceinline__ void store_keys(const AttentionGradArgs& a, const Tiling& tiling, const Part& my,
                                           float scale, Block (&dk)[kWidth / kBlock],
                                           const Block (&dv)[kWidth / kBlock], const GradOperands<T>& of,
                                           float of_temperature, float* of_warp, float* parts) {
  const AttentionShape& s = a.shape;
  scale_rows<kWidth>(dk, {scale, scale});
  store_rows<T, kWidth>(s, tiling, dk, of.dqkv + my.all, s.qkv_stride, my.first + my.warp_row);
  store_rows<T, kWidth>(s, tiling, dv, of.dqkv + 2 * my.all, s.qkv_stride, my.first + my.warp_row);
  if (my.at.head == s.heads - 1)
    zero_pads(s, of.dqkv - my.at.head * s.width, tiling.tile, my.first, 3 * my.all, s.qkv_stride);
  if (parts == nullptr) return;
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    of_temperature += __shfl_xor_sync(kAllLanes, of_temperature, distance);
  if (lane_of_warp() == 0) of_warp[my.warp_row / kBlock] = of_temperature;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float sum = 0;
  for (int warp = 0; warp < tiling.tile / kBlock; ++warp) sum += of_warp[warp];
  parts[blockIdx.x] = sum;
}

/// The whole gradient of an image and head whose tokens are one tile.
template <class T, int kWidth>
__global__ void __launch_bounds__(kMostThreads<kWidth>, kLeastBlocks<kWidth>)
    grad_16(AttentionGradArgs a, Tiling tiling, float* parts) {
  const AttentionShape& s = a.shape;
  const Part my(s, tiling);
  const GradTiles<T, kWidth> tiles(tiling);
  const GradOperands<T> of(a, my.at);
  const float scale = scale_of(a.scale, a.temperature);
  take_logs(a, tiling, my, 0, tiles.log_of);
  load_tiles<kWidth, T, 4>(s, tiling,
                           {{of.qkv, s.qkv_stride, 0, tiles.queries},
                            {of.qkv + my.all, s.qkv_stride, 0, tiles.keys},
                            {of.qkv + 2 * my.all, s.qkv_stride, 0, tiles.values},
                            {of.dy, s.y_stride, 0, tiles.dy}});
  __syncthreads();
  const Meeting meet(s, tiling, 0, 0);
  {
    const QueryRows<T, kWidth> rows(tiles, my);
    float sums[2] = {};
    add_to_sums(tiles, my, rows, meet, scale, sums);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sums[half] = sum_of_row(sums[half]);
      if (my.is_first_of_row) tiles.sum_of[my.row + 8 * half] = sums[half];
    }
    Block dq[kWidth / kBlock] = {};
    add_to_queries(tiles, my, rows, meet, scale, sums, dq);
    store_queries<T, kWidth>(s, tiling, my, scale, dq, of);
  }
  __syncthreads();
  Block dk[kWidth / kBlock] = {}, dv[kWidth / kBlock] = {};
  float of_temperature = 0;
  add_to_keys(tiles, my, tiling.tile, meet, scale, dk, dv, of_temperature);
  store_keys<T, kWidth>(a, tiling, my, scale, dk, dv, of, of_temperature, tiles.of_warp, parts);
}

/// dq of a tile of tokens; of each the sum of p * dp, which the other kernel needs.
template <class T, int kWidth>
__global__ void __launch_bounds__(kMostThreads<kWidth>, 2)
    grad_queries_16(AttentionGradArgs a, Tiling tiling, float* sums_of) {
  const AttentionShape& s = a.shape;
  const Part my(s, tiling);
  const GradTiles<T, kWidth> tiles(tiling);
  const GradOperands<T> of(a, my.at);
  const float scale = scale_of(a.scale, a.temperature);
  take_logs(a, tiling, my, my.first, tiles.log_of);
  load_tiles<kWidth, T, 2>(s, tiling,
                           {{of.qkv, s.qkv_stride, my.first, tiles.queries}, {of.dy, s.y_stride, my.first, tiles.dy}});
  __syncthreads();
  const QueryRows<T, kWidth> rows(tiles, my);
  const auto for_keys = [&](auto body) {
    for (int64_t key = 0; key < s.tokens; key += tiling.tile) {
      __syncthreads();
      load_tiles<kWidth, T, 1>(s, tiling, {{of.qkv + my.all, s.qkv_stride, key, tiles.keys}});
      load_tiles<kWidth, T, 1>(s, tiling, {{of.qkv + 2 * my.all, s.qkv_stride, key, tiles.values}});
      __syncthreads();
      body(Meeting(s, tiling, my.first, key));
    }
  };
  float sums[2] = {};
  for_keys([&](const Meeting& meet) { add_to_sums(tiles, my, rows, meet, scale, sums); });
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sums[half] = sum_of_row(sums[half]);
    const int64_t i = my.first + my.row + 8 * half;
    if (my.is_first_of_row && i < s.tokens) sums_of[my.of_head + i] = sums[half];
  }
  Block dq[kWidth / kBlock] = {};
  for_keys([&](const Meeting& meet) { add_to_queries(tiles, my, rows, meet, scale, sums, dq); });
  store_queries<T, kWidth>(s, tiling, my, scale, dq, of);
}

/// dk and dv of a tile of tokens, and the tile's part of dtemperature.
template <class T, int kWidth>
__global__ void __launch_bounds__(kMostThreads<kWidth>, kLeastBlocks<kWidth>)
    grad_keys_16(AttentionGradArgs a, Tiling tiling, const float* sums_of, float* parts) {
  const AttentionShape& s = a.shape;
  const Part my(s, tiling);
  const GradTiles<T, kWidth> tiles(tiling);
  const GradOperands<T> of(a, my.at);
  const int thread = static_cast<int>(threadIdx.x);
  const float scale = scale_of(a.scale, a.temperature);
  load_tiles<kWidth, T, 2>(s, tiling,
                           {{of.qkv + my.all, s.qkv_stride, my.first, tiles.keys},
                            {of.qkv + 2 * my.all, s.qkv_stride, my.first, tiles.values}});
  Block dk[kWidth / kBlock] = {}, dv[kWidth / kBlock] = {};
  float of_temperature = 0;
  for (int64_t query = 0; query < s.tokens; query += tiling.tile) {
    __syncthreads();
    take_logs(a, tiling, my, query, tiles.log_of);
    if (thread < tiling.tile)
      tiles.sum_of[thread] = query + thread < s.tokens ? sums_of[my.of_head + query + thread] : 0;
    load_tiles<kWidth, T, 1>(s, tiling, {{of.qkv, s.qkv_stride, query, tiles.queries}});
    load_tiles<kWidth, T, 1>(s, tiling, {{of.dy, s.y_stride, query, tiles.dy}});
    __syncthreads();
    add_to_keys(tiles, my, tiling.tile, Meeting(s, tiling, query, my.first), scale, dk, dv, of_temperature);
  }
  store_keys<T, kWidth>(a, tiling, my, scale, dk, dv, of, of_temperature, tiles.of_warp, parts);
}

/// As few tiles as there must be, and these as short as they may be.
Tiling tiling_of(const AttentionShape& s, bool wide) {
  const int64_t most = s.width <= 64 ? kMostTokens<64> : kMostTokens<128>, tiles = divide_up(s.tokens, most);
  const int64_t blocks = divide_up(divide_up(s.tokens, tiles), int64_t{kBlock});
  return {static_cast<int>(blocks * kBlock), static_cast<int>(tiles), wide};
}

/// call(T{}, Number<kWidth>{}) for the type and the width of the heads.
template <class Call>
cudaError_t with_width(const AttentionShape& s, Call call) {
  const auto with = [&]<class T>(T t) {
    if (s.width <= 32) return call(t, Number<32>{});
    if (s.width <= 64) return call(t, Number<64>{});
    return call(t, Number<128>{});
  };
  return s.type == Type::bf16 ? with(__nv_bfloat16{}) : with(__half{});
}

/// Of a kernel that has so many tiles, and numbers of each token of a tile and of each warp, in shared memory.
template <int kWidth>
Grid grid_of(const AttentionShape& s, const Tiling& tiling, int tiles, int floats) {
  const int bytes = tiles * tiling.tile * kRow<kWidth> * 2 + floats * static_cast<int>(sizeof(float));
  return {.blocks = static_cast<unsigned>(s.n * s.heads * tiling.tiles),
          .threads = static_cast<unsigned>(tiling.tile / kBlock * kWarp),
          .shared_bytes = static_cast<size_t>(bytes)};
}

template <class... Pointers>
bool are_wide(const AttentionShape& s, const Pointers*... operands) {
  return s.width % 8 == 0 && s.qkv_stride % 8 == 0 && s.y_stride % 8 == 0 && aligned_16(operands...);
}

}  // namespace

int64_t tensor_core_tiles(const AttentionShape& s) { return tiling_of(s, /*wide=*/false).tiles; }

cudaError_t attention_on_tensor_cores(const AttentionArgs& a, cudaStream_t stream) {
  const AttentionShape& s = a.shape;
  return with_width(s, [&]<class T, class Width>(T, Width) {
    const Tiling tiling = tiling_of(s, are_wide(s, a.qkv, a.y));
    return launch(forward_16<T, Width::value>, grid_of<Width::value>(s, tiling, /*tiles=*/3, /*floats=*/0), stream, a,
                  tiling);
  });
}

cudaError_t attention_grad_on_tensor_cores(const AttentionGradArgs& a, float* sums, float* parts, cudaStream_t stream) {
  const AttentionShape& s = a.shape;
  const Tiling tiling = tiling_of(s, are_wide(s, a.qkv, a.dy, a.dqkv));
  return with_width(s, [&]<class T, class Width>(T, Width) {
    constexpr int kWidth = Width::value;
    const Grid grid = grid_of<kWidth>(s, tiling, /*tiles=*/4, /*floats=*/2 * tiling.tile + tiling.tile / kBlock);
    if (tiling.tiles == 1) return launch(grad_16<T, kWidth>, grid, stream, a, tiling, parts);
    const cudaError_t queries = launch(grad_queries_16<T, kWidth>, grid, stream, a, tiling, sums);
    if (queries != cudaSuccess) return queries;
    return launch(grad_keys_16<T, kWidth>, grid, stream, a, tiling, sums, parts);
  });
}

}  // namespace ct::kernels
