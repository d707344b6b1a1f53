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

/// dw (blockIdx.y == 0) and db: the parts' sums, a warp's width of columns a block.
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

template <class Args>
bool sensible(const Args& a) {
  return a.rows > 0 && a.columns > 0 && a.stride >= a.columns;
}

}  // namespace

cudaError_t layer_norm(const LayerNormArgs& a, cudaStream_t stream) {
  if (!sensible(a) || (a.residual == nullptr) != (a.sum == nullptr)) return cudaErrorInvalidValue;
  const Grid grid{.blocks = static_cast<unsigned>(divide_up<int64_t>(a.rows, kWarps)), .threads = kThreads};
  return with_type(a.type, [&]<class T>(T) {
    return aligned_16(a.x, a.residual, a.sum, a.y) && a.stride % Pack<T>::kSize == 0
               ? launch(normalise_rows<T, /*Wide=*/true>, grid, stream, a)
               : launch(normalise_rows<T, /*Wide=*/false>, grid, stream, a);
  });
}

size_t layer_norm_grad_workspace(int64_t rows, int64_t columns) {
  return static_cast<size_t>(parts_of(rows).count * 2 * columns) * sizeof(float);
}

cudaError_t layer_norm_grad(const LayerNormGradArgs& a, cudaStream_t stream) {
  if (!sensible(a)) return cudaErrorInvalidValue;
  const Parts parts = parts_of(a.rows);
  const Grid grid{.blocks = static_cast<unsigned>(parts.count), .threads = kThreads};
  const cudaError_t error = with_type(a.type, [&]<class T>(T) {
    return aligned_16(a.x, a.dy, a.dsum, a.dx) && a.stride % Pack<T>::kSize == 0
               ? launch(gradients_of_part<T, /*Wide=*/true>, grid, stream, a, parts.rows, a.workspace)
               : launch(gradients_of_part<T, /*Wide=*/false>, grid, stream, a, parts.rows, a.workspace);
  });
  if (error != cudaSuccess) return error;
  const Grid merge{.blocks = {static_cast<unsigned>(divide_up<int64_t>(a.columns, kWarp)), 2},
                   .threads = {kWarp, kMergeLanes},
                   .shared_bytes = kMergeLanes * kWarp * sizeof(double)};
  return launch(merge_parts, merge, stream, a.workspace, parts.count, a.columns, a.dw, a.db);
}

}  // namespace ct::kernels
