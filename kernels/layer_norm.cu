#include "layer_norm.h"

namespace ct::kernels {
namespace {

constexpr int kWarps = 8;  // of a block; each has a row at a time
constexpr int kThreads = kWarps * kWarp;
constexpr int64_t kTile = 32;  // rows whose gradients of w and b follow while they are in the cache
constexpr int64_t kMostParts = 512;
constexpr int kMergeLanes = 8;

/// row[i .. i + kSize), of which those before `end` count.
template <class T, bool Wide>
__device__ __forceinline__ Pack<T> load(const T* row, int64_t i, int64_t end) {
  Pack<T> pack;
  if constexpr (Wide) pack = *reinterpret_cast<const Pack<T>*>(row + i);
  for (int k = 0; k < Pack<T>::kSize; ++k) {
    if (i + k >= end)
      pack.at[k] = from_float<T>(0);
    else if constexpr (!Wide)
      pack.at[k] = row[i + k];
  }
  return pack;
}

/// To row[i .. i + kSize), or as much of it as lies before `end`.
template <bool Wide, class T>
__device__ __forceinline__ void store(const Pack<T>& pack, T* row, int64_t i, int64_t end) {
  if constexpr (Wide) {
    *reinterpret_cast<Pack<T>*>(row + i) = pack;
  } else {
    for (int k = 0; k < Pack<T>::kSize; ++k)
      if (i + k < end) row[i + k] = pack.at[k];
  }
}

/// The sum over a warp's lanes, to all of them.
__device__ __forceinline__ float sum_over_lanes(float x) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(kAllLanes, x, distance);
  return x;
}

/// body(i) for a lane's packs of a row, which begin before `end`.
template <class T, class Body>
__device__ __forceinline__ void for_packs(int64_t end, Body&& body) {
  constexpr int kSize = Pack<T>::kSize;
  for (int64_t i = static_cast<int64_t>(threadIdx.x % kWarp) * kSize; i < end; i += kWarp * kSize) body(i);
}

// ---- rows of up to 1024 elements, which stay in registers (with_held()): memory is read once

/// body(p, i) for a lane's packs p, which begin at element i.
template <class T, int kHeld, class Body>
__device__ __forceinline__ void for_held(Body&& body) {
#pragma unroll
  for (int p = 0; p < kHeld; ++p) body(p, (static_cast<int>(threadIdx.x % kWarp) + p * kWarp) * Pack<T>::kSize);
}

/// A lane's part of a row; zeros from `columns` on.
template <class T, int kHeld>
struct HeldRow {
  Pack<T> at[kHeld];
  template <bool Wide>
  __device__ __forceinline__ void load_row(const T* row, int64_t columns, int64_t stride) {
    for_held<T, kHeld>([&](int p, int64_t i) {
      if (i < stride) {
        at[p] = load<T, Wide>(row, i, columns);
      } else {
#pragma unroll
        for (int k = 0; k < Pack<T>::kSize; ++k) at[p].at[k] = from_float<T>(0);
      }
    });
  }
};
/// The same of f32 [columns].
template <class T, int kHeld>
struct HeldFloats {
  static constexpr int kSize = Pack<T>::kSize;
  float at[kHeld][kSize];
  __device__ __forceinline__ void load_all(const float* from, int64_t columns) {
    const bool wide = reinterpret_cast<uintptr_t>(from) % 16 == 0;
    for_held<T, kHeld>([&](int p, int64_t i) {
      if (wide && i + kSize <= columns) {
        load_floats(from + i, at[p]);
      } else {
#pragma unroll
        for (int k = 0; k < kSize; ++k) at[p][k] = i + k < columns ? from[i + k] : 0;
      }
    });
  }
};

constexpr int kRowsOfWarp = 4;  // one after the other, with the same w and b in registers

template <class T, bool Wide, int kHeld>
__global__ void __launch_bounds__(kThreads) normalise_held(LayerNormArgs a) {
  constexpr int kSize = Pack<T>::kSize;
  HeldFloats<T, kHeld> w, b;
  w.load_all(a.w, a.columns);
  b.load_all(a.b, a.columns);
  const auto count = static_cast<float>(a.columns);
  const int64_t first = (int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp) * kRowsOfWarp;
  for (int64_t row = first; row < min(first + kRowsOfWarp, a.rows); ++row) {
    const int64_t begin = row * a.stride;
    HeldRow<T, kHeld> v;
    v.template load_row<Wide>(static_cast<const T*>(a.x) + begin, a.columns, a.stride);
    if (a.residual != nullptr) {
      HeldRow<T, kHeld> r;
      r.template load_row<Wide>(static_cast<const T*>(a.residual) + begin, a.columns, a.stride);
      for_held<T, kHeld>([&](int p, int64_t i) {
#pragma unroll
        for (int k = 0; k < kSize; ++k)
          v.at[p].at[k] = from_float<T>(to_float(v.at[p].at[k]) + to_float(r.at[p].at[k]));
        if (i < a.stride) store<Wide>(v.at[p], static_cast<T*>(a.sum) + begin, i, a.stride);
      });
    }
    float total = 0, squares = 0;
    for_held<T, kHeld>([&](int p, int64_t) {
#pragma unroll
      for (int k = 0; k < kSize; ++k) total += to_float(v.at[p].at[k]);
    });
    const float mean = sum_over_lanes(total) / count;
    for_held<T, kHeld>([&](int p, int64_t i) {
#pragma unroll
      for (int k = 0; k < kSize; ++k) {
        const float from_mean = i + k < a.columns ? to_float(v.at[p].at[k]) - mean : 0;
        squares = __fmaf_rn(from_mean, from_mean, squares);
      }
    });
    const float rstd = 1 / sqrtf(sum_over_lanes(squares) / count + static_cast<float>(a.eps));
    for_held<T, kHeld>([&](int p, int64_t i) {
      Pack<T> y;
#pragma unroll
      for (int k = 0; k < kSize; ++k)
        y.at[k] = from_float<T>(
            i + k < a.columns ? __fmaf_rn((to_float(v.at[p].at[k]) - mean) * rstd, w.at[p][k], b.at[p][k]) : 0);
      if (i < a.stride) store<Wide>(y, static_cast<T*>(a.y) + begin, i, a.stride);
    });
    if (threadIdx.x % kWarp != 0) continue;
    if (a.mean != nullptr) a.mean[row] = mean;
    if (a.rstd != nullptr) a.rstd[row] = rstd;
  }
}

// ---- wider rows, which are read again from the caches

template <class T, bool Wide>
__global__ void __launch_bounds__(kThreads) normalise_rows(LayerNormArgs a) {
  constexpr int kSize = Pack<T>::kSize;
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (row >= a.rows) return;
  const T* x = static_cast<const T*>(a.x) + row * a.stride;
  float total = 0;
  if (a.residual != nullptr) {
    const T* residual = static_cast<const T*>(a.residual) + row * a.stride;
    T* sum = static_cast<T*>(a.sum) + row * a.stride;
    for_packs<T>(a.stride, [&](int64_t i) {
      Pack<T> v = load<T, Wide>(x, i, a.columns);
      const Pack<T> r = load<T, Wide>(residual, i, a.columns);
      for (int k = 0; k < kSize; ++k) {
        v.at[k] = from_float<T>(to_float(v.at[k]) + to_float(r.at[k]));
        total += to_float(v.at[k]);
      }
      store<Wide>(v, sum, i, a.stride);
    });
    x = sum;  // which this lane reads where it wrote
  } else {
    for_packs<T>(a.columns, [&](int64_t i) {
      const Pack<T> v = load<T, Wide>(x, i, a.columns);
      for (int k = 0; k < kSize; ++k) total += to_float(v.at[k]);
    });
  }
  const auto count = static_cast<float>(a.columns);
  const float mean = sum_over_lanes(total) / count;
  float squares = 0;
  for_packs<T>(a.columns, [&](int64_t i) {
    const Pack<T> v = load<T, Wide>(x, i, a.columns);
    for (int k = 0; k < kSize; ++k) {
      const float from_mean = i + k < a.columns ? to_float(v.at[k]) - mean : 0;
      squares = __fmaf_rn(from_mean, from_mean, squares);
    }
  });
  const float rstd = 1 / sqrtf(sum_over_lanes(squares) / count + static_cast<float>(a.eps));
  T* y = static_cast<T*>(a.y) + row * a.stride;
  for_packs<T>(a.stride, [&](int64_t i) {
    Pack<T> v = load<T, Wide>(x, i, a.columns);
    for (int k = 0; k < kSize; ++k)
      v.at[k] =
          from_float<T>(i + k < a.columns ? __fmaf_rn((to_float(v.at[k]) - mean) * rstd, a.w[i + k], a.b[i + k]) : 0);
    store<Wide>(v, y, i, a.stride);
  });
  if (threadIdx.x % kWarp != 0) return;
  if (a.mean != nullptr) a.mean[row] = mean;
  if (a.rstd != nullptr) a.rstd[row] = rstd;
}

struct Parts {
  int64_t rows, count;
};
Parts parts_of(int64_t rows) {
  const int64_t tiles = divide_up(rows, kTile), part = kTile * divide_up(tiles, kMostParts);
  return {part, divide_up(rows, part)};
}

/// Gradients of part blockIdx.x of the rows, warp w those of rows w, w + kWarps, ...; those of w and b into parts
/// [part][2][columns], the warps' sums in order. Shared memory: a row of floats for each warp.
template <class T, bool Wide, int kHeld>
__global__ void __launch_bounds__(kThreads, kHeld* Pack<T>::kSize < 16 ? 2 : 1)
    gradients_of_held_part(LayerNormGradArgs a, int64_t part, float* parts) {
  constexpr int kSize = Pack<T>::kSize, kColumns = kHeld * kWarp * kSize;
  const int64_t begin = int64_t{blockIdx.x} * part, end = min(a.rows, begin + part);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const auto count = static_cast<float>(a.columns);
  HeldFloats<T, kHeld> w, dw = {}, db = {};
  w.load_all(a.w, a.columns);
  for (int64_t row = begin + warp; row < end; row += kWarps) {
    const int64_t at = row * a.stride;
    HeldRow<T, kHeld> v, d;
    v.template load_row<Wide>(static_cast<const T*>(a.x) + at, a.columns, a.stride);
    d.template load_row<Wide>(static_cast<const T*>(a.dy) + at, a.columns, a.stride);
    const float mean = a.mean[row], rstd = a.rstd[row];
    float g_sum = 0, gn_sum = 0;
    for_held<T, kHeld>([&](int p, int64_t i) {
#pragma unroll
      for (int k = 0; k < kSize; ++k) {
        if (i + k >= a.columns) continue;
        const float dy = to_float(d.at[p].at[k]), g = dy * w.at[p][k], n = (to_float(v.at[p].at[k]) - mean) * rstd;
        g_sum += g;
        gn_sum = __fmaf_rn(g, n, gn_sum);
        dw.at[p][k] = __fmaf_rn(dy, n, dw.at[p][k]);
        db.at[p][k] += dy;
      }
    });
    if (a.dx == nullptr) continue;
    HeldRow<T, kHeld> dsum;
    if (a.dsum != nullptr) dsum.template load_row<Wide>(static_cast<const T*>(a.dsum) + at, a.columns, a.stride);
    const float g_mean = sum_over_lanes(g_sum) / count, gn_mean = sum_over_lanes(gn_sum) / count;
    for_held<T, kHeld>([&](int p, int64_t i) {
      Pack<T> dx;
#pragma unroll
      for (int k = 0; k < kSize; ++k) {
        const float n = (to_float(v.at[p].at[k]) - mean) * rstd;
        float value = rstd * (to_float(d.at[p].at[k]) * w.at[p][k] - __fmaf_rn(n, gn_mean, g_mean));
        if (a.dsum != nullptr) value += to_float(dsum.at[p].at[k]);
        dx.at[k] = from_float<T>(i + k < a.columns ? value : 0);
      }
      if (i < a.stride) store<Wide>(dx, static_cast<T*>(a.dx) + at, i, a.stride);
    });
  }
  auto* sums = shared_memory<float>();  // [kWarps][kColumns]
  for (int which = 0; which < 2; ++which) {
    for_held<T, kHeld>([&](int p, int64_t i) {
#pragma unroll
      for (int k = 0; k < kSize; ++k) sums[warp * kColumns + i + k] = which == 0 ? dw.at[p][k] : db.at[p][k];
    });
    __syncthreads();
    float* to = parts + (int64_t{blockIdx.x} * 2 + which) * a.columns;
    for (int c = static_cast<int>(threadIdx.x); c < a.columns; c += kThreads) {
      float sum = 0;
      for (int of = 0; of < kWarps; ++of) sum += sums[of * kColumns + c];
      to[c] = sum;
    }
    __syncthreads();
  }
}

/// A row's dx, by a warp.
template <class T, bool Wide>
__device__ __forceinline__ void input_gradient(const LayerNormGradArgs& a, int64_t row) {
  constexpr int kSize = Pack<T>::kSize;
  const int64_t begin = row * a.stride;
  const T *x = static_cast<const T*>(a.x) + begin, *dy = static_cast<const T*>(a.dy) + begin;
  const float mean = a.mean[row], rstd = a.rstd[row];
  float g_sum = 0, gn_sum = 0;
  for_packs<T>(a.columns, [&](int64_t i) {
    const Pack<T> v = load<T, Wide>(x, i, a.columns), d = load<T, Wide>(dy, i, a.columns);
    for (int k = 0; k < kSize; ++k) {
      if (i + k >= a.columns) continue;
      const float g = to_float(d.at[k]) * a.w[i + k];
      g_sum += g;
      gn_sum = __fmaf_rn(g, (to_float(v.at[k]) - mean) * rstd, gn_sum);
    }
  });
  const auto count = static_cast<float>(a.columns);
  const float g_mean = sum_over_lanes(g_sum) / count, gn_mean = sum_over_lanes(gn_sum) / count;
  const T* dsum = a.dsum != nullptr ? static_cast<const T*>(a.dsum) + begin : nullptr;
  T* dx = static_cast<T*>(a.dx) + begin;
  for_packs<T>(a.stride, [&](int64_t i) {
    const Pack<T> v = load<T, Wide>(x, i, a.columns), d = load<T, Wide>(dy, i, a.columns);
    Pack<T> result;
    if (dsum != nullptr) result = load<T, Wide>(dsum, i, a.columns);
    for (int k = 0; k < kSize; ++k) {
      float value = 0;
      if (i + k < a.columns) {
        const float n = (to_float(v.at[k]) - mean) * rstd;
        value = rstd * (to_float(d.at[k]) * a.w[i + k] - __fmaf_rn(n, gn_mean, g_mean));
        if (dsum != nullptr) value += to_float(result.at[k]);
      }
      result.at[k] = from_float<T>(value);
    }
    store<Wide>(result, dx, i, a.stride);
  });
}

/// Gradients of the part blockIdx.x of the rows; those of w and b into parts [part][2][columns].
template <class T, bool Wide>
__global__ void __launch_bounds__(kThreads) gradients_of_part(LayerNormGradArgs a, int64_t part, float* parts) {
  const int64_t begin = int64_t{blockIdx.x} * part, end = min(a.rows, begin + part);
  const T *x = static_cast<const T*>(a.x), *dy = static_cast<const T*>(a.dy);
  float *dw = parts + int64_t{blockIdx.x} * 2 * a.columns, *db = dw + a.columns;
  for (int64_t first = begin; first < end; first += kTile) {
    const int64_t last = min(end, first + kTile);
    if (a.dx != nullptr)
      for (int64_t row = first + threadIdx.x / kWarp; row < last; row += kWarps) input_gradient<T, Wide>(a, row);
    for (int64_t c = threadIdx.x; c < a.columns; c += kThreads) {
      float w_sum = 0, b_sum = 0;
      for (int64_t row = first; row < last; ++row) {
        const int64_t i = row * a.stride + c;
        const float d = to_float(dy[i]);
        w_sum = __fmaf_rn(d, (to_float(x[i]) - a.mean[row]) * a.rstd[row], w_sum);
        b_sum += d;
      }
      dw[c] = first == begin ? w_sum : dw[c] + w_sum;
      db[c] = first == begin ? b_sum : db[c] + b_sum;
    }
  }
}

/// dw (blockIdx.y == 0) and db: the parts' sums, a warp's width of columns per block.
__global__ void __launch_bounds__(kWarp* kMergeLanes)
    merge_parts(const float* parts, int64_t count, int64_t columns, float* dw, float* db) {
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  double sum = 0;
  if (column < columns)
    for (int64_t part = threadIdx.y; part < count; part += kMergeLanes)
      sum += static_cast<double>(parts[(part * 2 + blockIdx.y) * columns + column]);
  double* lanes = shared_memory<double>();  // [kMergeLanes][kWarp]
  lanes[threadIdx.y * kWarp + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int lane = 1; lane < kMergeLanes; ++lane) sum += lanes[lane * kWarp + threadIdx.x];
  (blockIdx.y == 0 ? dw : db)[column] = static_cast<float>(sum);
}

template <int N>
struct Held {};
/// call(Held<packs of a lane>{}); 0: more than stay in registers.
template <class T, class Call>
cudaError_t with_held(int64_t stride, Call call) {
  const int64_t packs = divide_up<int64_t>(stride, kWarp * Pack<T>::kSize);
  if (packs == 1) return call(Held<1>{});
  if (packs == 2) return call(Held<2>{});
  if (packs <= 4) return call(Held<4>{});
  if constexpr (sizeof(T) == sizeof(float))
    if (packs <= 8) return call(Held<8>{});
  return call(Held<0>{});
}

template <class Args>
bool sensible(const Args& a) {
  return a.rows > 0 && a.columns > 0 && a.stride >= a.columns;
}

}  // namespace

cudaError_t layer_norm(const LayerNormArgs& a, cudaStream_t stream) {
  if (!sensible(a) || (a.residual == nullptr) != (a.sum == nullptr)) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) {
    const bool wide = aligned_16(a.x, a.residual, a.sum, a.y) && a.stride % Pack<T>::kSize == 0;
    return with_held<T>(a.stride, [&]<int kHeld>(Held<kHeld>) {
      const int64_t rows = kHeld > 0 ? kWarps * kRowsOfWarp : kWarps;
      const Grid grid{.blocks = static_cast<unsigned>(divide_up(a.rows, rows)), .threads = kThreads};
      if constexpr (kHeld > 0)
        return launch(wide ? normalise_held<T, true, kHeld> : normalise_held<T, false, kHeld>, grid, stream, a);
      else
        return launch(wide ? normalise_rows<T, true> : normalise_rows<T, false>, grid, stream, a);
    });
  });
}

size_t layer_norm_grad_workspace(int64_t rows, int64_t columns) {
  return static_cast<size_t>(parts_of(rows).count * 2 * columns) * sizeof(float);
}

cudaError_t layer_norm_grad(const LayerNormGradArgs& a, cudaStream_t stream) {
  if (!sensible(a)) return cudaErrorInvalidValue;
  const Parts parts = parts_of(a.rows);
  const cudaError_t error = with_type(a.type, [&]<class T>(T) {
    const bool wide = aligned_16(a.x, a.dy, a.dsum, a.dx) && a.stride % Pack<T>::kSize == 0;
    return with_held<T>(a.stride, [&]<int kHeld>(Held<kHeld>) {
      const Grid grid{.blocks = static_cast<unsigned>(parts.count),
                      .threads = kThreads,
                      .shared_bytes = kWarps * kHeld * kWarp * Pack<T>::kSize * sizeof(float)};
      const auto start = [&](auto kernel) { return launch(kernel, grid, stream, a, parts.rows, a.workspace); };
      if constexpr (kHeld > 0)
        return start(wide ? gradients_of_held_part<T, true, kHeld> : gradients_of_held_part<T, false, kHeld>);
      else
        return start(wide ? gradients_of_part<T, true> : gradients_of_part<T, false>);
    });
  });
  if (error != cudaSuccess) return error;
  const Grid merge{.blocks = {static_cast<unsigned>(divide_up<int64_t>(a.columns, kWarp)), 2},
                   .threads = {kWarp, kMergeLanes},
                   .shared_bytes = kMergeLanes * kWarp * sizeof(double)};
  return launch(merge_parts, merge, stream, a.workspace, parts.count, a.columns, a.dw, a.db);
}

}  // namespace ct::kernels
