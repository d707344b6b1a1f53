#include "layer_norm.h"

namespace ct::kernels {
namespace {

constexpr int kWarps = 8;  // of a block; each has a row at a time, or a few
constexpr int kThreads = kWarps * kWarp;
constexpr int64_t kTile = 32;  // rows whose gradients of w and b follow while they are in the cache
constexpr int64_t kMostParts = 512;
constexpr int kMergeLanes = 8, kMergeAtOnce = 8;

/// Elements of a row that a lane keeps in registers: the least multiple of kStep that is enough, for rows of at most
/// kMostHeld a lane. Longer rows are read again from the caches.
constexpr int kStep = 8, kMostHeld = 32;

/// A row as a warp holds it, E elements a lane.
template <class T, int E>
constexpr int kPacks = E / Pack<T>::kSize;
/// Rows that a warp loads before it uses the first of them.
template <class T, int E>
constexpr int kRows = E * sizeof(T) <= 32 ? 64 / (E * sizeof(T)) : 1;

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

/// N floats of which those from `inside` on are pads.
template <int N>
__device__ __forceinline__ void zero_pads(float (&x)[N], int inside) {
  for (int k = 0; k < N; ++k)
    if (k >= inside) x[k] = 0;
}
/// A lane's numbers [columns] of its pack of columns at i; pads are zeros.
template <int N>
__device__ __forceinline__ void load_columns(const float* from, int i, int columns, bool wide, float (&to)[N]) {
  if (wide && i + N <= columns) {
    load_floats(from + i, to);
  } else {
    for (int k = 0; k < N; ++k) to[k] = i + k < columns ? from[i + k] : 0;
  }
}
template <class T>
__device__ __forceinline__ void floats(const Pack<T>& pack, float (&to)[Pack<T>::kSize]) {
  for (int k = 0; k < Pack<T>::kSize; ++k) to[k] = to_float(pack.at[k]);
}
template <class T>
__device__ __forceinline__ Pack<T> rounded(const float (&x)[Pack<T>::kSize]) {
  Pack<T> pack;
  for (int k = 0; k < Pack<T>::kSize; ++k) pack.at[k] = from_float<T>(x[k]);
  return pack;
}
/// The lane's packs of a row, as they are in memory; those that begin at `end` or later stay as they were.
template <bool Wide, class T, int Packs>
__device__ __forceinline__ void load_row(const T* row, int end, Pack<T> (&to)[Packs]) {
  for (int j = 0; j < Packs; ++j)
    if (const int i = (j * kWarp + threadIdx.x % kWarp) * Pack<T>::kSize; i < end) {
      if constexpr (Wide)
        to[j] = *reinterpret_cast<const Pack<T>*>(row + i);
      else
        to[j] = load<T, Wide>(row, i, end);
    }
}

/// normalise_rows for rows that fit in registers, kRows at a time; `wide`: w and b are aligned to 16 bytes.
template <class T, bool Wide, int E>
__global__ void __launch_bounds__(kThreads) normalise_held_rows(LayerNormArgs a, bool wide) {
  constexpr int kSize = Pack<T>::kSize, kHeld = kPacks<T, E>, kAtOnce = kRows<T, E>;
  const int64_t first = (int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp) * kAtOnce;
  if (first >= a.rows) return;
  const int columns = static_cast<int>(a.columns), stride = static_cast<int>(a.stride);
  const auto at = [&](int r) { return min(first + r, a.rows - 1) * a.stride; };  // the last row may be computed again
  const auto place = [](int j) { return (j * kWarp + static_cast<int>(threadIdx.x) % kWarp) * kSize; };
  Pack<T> packs[kAtOnce][kHeld] = {};
  for (int r = 0; r < kAtOnce; ++r) load_row<Wide>(static_cast<const T*>(a.x) + at(r), columns, packs[r]);
  if (a.residual != nullptr) {
    Pack<T> others[kAtOnce][kHeld] = {};
    for (int r = 0; r < kAtOnce; ++r) load_row<Wide>(static_cast<const T*>(a.residual) + at(r), columns, others[r]);
    for (int r = 0; r < kAtOnce; ++r)
      for (int j = 0; j < kHeld; ++j) {
        float sum[kSize], other[kSize];
        floats(packs[r][j], sum);
        floats(others[r][j], other);
        for (int k = 0; k < kSize; ++k) sum[k] += other[k];
        zero_pads(sum, columns - place(j));
        packs[r][j] = rounded<T>(sum);
        if (place(j) < stride) store<Wide>(packs[r][j], static_cast<T*>(a.sum) + at(r), place(j), stride);
      }
  }
  const auto count = static_cast<float>(a.columns);
  float mean[kAtOnce], rstd[kAtOnce], x[kAtOnce][kHeld][kSize];
  for (int r = 0; r < kAtOnce; ++r) {
    float total = 0;
    for (int j = 0; j < kHeld; ++j) {
      floats(packs[r][j], x[r][j]);
      zero_pads(x[r][j], columns - place(j));
      for (int k = 0; k < kSize; ++k) total += x[r][j][k];
    }
    mean[r] = total;
  }
  for (int r = 0; r < kAtOnce; ++r) mean[r] = sum_over_lanes(mean[r]) / count;
  for (int r = 0; r < kAtOnce; ++r) {
    float squares = 0;
    for (int j = 0; j < kHeld; ++j) {
      for (int k = 0; k < kSize; ++k) x[r][j][k] -= mean[r];
      zero_pads(x[r][j], columns - place(j));
      for (int k = 0; k < kSize; ++k) squares = __fmaf_rn(x[r][j][k], x[r][j][k], squares);
    }
    rstd[r] = squares;
  }
  for (int r = 0; r < kAtOnce; ++r) rstd[r] = 1 / sqrtf(sum_over_lanes(rstd[r]) / count + static_cast<float>(a.eps));
  for (int j = 0; j < kHeld; ++j) {
    const int i = place(j);
    if (i >= stride) continue;
    float w[kSize], b[kSize];
    load_columns(a.w, i, columns, wide, w);
    load_columns(a.b, i, columns, wide, b);
    for (int r = 0; r < kAtOnce; ++r) {
      for (int k = 0; k < kSize; ++k) x[r][j][k] = __fmaf_rn(x[r][j][k] * rstd[r], w[k], b[k]);
      zero_pads(x[r][j], columns - i);
      store<Wide>(rounded<T>(x[r][j]), static_cast<T*>(a.y) + at(r), i, stride);
    }
  }
  if (threadIdx.x % kWarp != 0) return;
  for (int r = 0; r < kAtOnce && first + r < a.rows; ++r) {
    if (a.mean != nullptr) a.mean[first + r] = mean[r];
    if (a.rstd != nullptr) a.rstd[first + r] = rstd[r];
  }
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
    for (int64_t part = threadIdx.y; part < count; part += kMergeAtOnce * kMergeLanes) {
      float loaded[kMergeAtOnce];
      for (int i = 0; i < kMergeAtOnce; ++i) {
        const int64_t from = part + i * kMergeLanes < count ? part + i * kMergeLanes : part;
        loaded[i] = parts[(from * 2 + blockIdx.y) * columns + column];
      }
      for (int i = 0; i < kMergeAtOnce; ++i)
        if (part + i * kMergeLanes < count) sum += static_cast<double>(loaded[i]);
    }
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

/// call(element, whether accesses are wide, elements of a row that a lane holds or 0: too many).
template <class Call, class... Pointers>
cudaError_t with_access(Type type, int64_t stride, Call call, const Pointers*... pointers) {
  return with_type(type, [&](auto element) {
    const auto of_width = [&](auto wide) {
      const int64_t held = divide_up<int64_t>(stride, kWarp * kStep) * kStep;
      static_assert(kMostHeld == 32);
      if (held == 8) return call(element, wide, std::integral_constant<int, 8>());
      if (held == 16) return call(element, wide, std::integral_constant<int, 16>());
      if (held == 24) return call(element, wide, std::integral_constant<int, 24>());
      if (held == 32) return call(element, wide, std::integral_constant<int, 32>());
      return call(element, wide, std::integral_constant<int, 0>());
    };
    return aligned_16(pointers...) && stride % Pack<decltype(element)>::kSize == 0 ? of_width(std::true_type())
                                                                                   : of_width(std::false_type());
  });
}

}  // namespace

cudaError_t layer_norm(const LayerNormArgs& a, cudaStream_t stream) {
  if (!sensible(a) || (a.residual == nullptr) != (a.sum == nullptr)) return cudaErrorInvalidValue;
  const auto grid = [&](int64_t rows_of_warp) {
    return Grid{.blocks = static_cast<unsigned>(divide_up<int64_t>(a.rows, kWarps * rows_of_warp)),
                .threads = kThreads};
  };
  return with_access(
      a.type, a.stride,
      [&]<class T, bool Wide, int E>(T, std::bool_constant<Wide>, std::integral_constant<int, E>) {
        if constexpr (E == 0)
          return launch(normalise_rows<T, Wide>, grid(1), stream, a);
        else
          return launch(normalise_held_rows<T, Wide, E>, grid(kRows<T, E>), stream, a, aligned_16(a.w, a.b));
      },
      a.x, a.residual, a.sum, a.y);
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
