#include "dropout_mask.h"
#include "layer_norm.h"
#include "pack_bits.h"

namespace ct::kernels {
namespace {

constexpr int kWarps = 8;  // of a block; each has a row at a time
constexpr int kThreads = kWarps * kWarp;
constexpr int64_t kTile = 32;  // rows whose gradients of w and b follow while they are in the cache
constexpr int kMergeLanes = 32;
constexpr int kMultiprocessors = 132;  // of an H100, for which grids are sized
// layer_norm: rows of a warp, with the same w and b in registers, as long as there are many warps.
constexpr int64_t kMostRowsOfWarp = 16, kManyWarps = 64 * kMultiprocessors;

/// How rows are accessed.
enum class Access : uint8_t {
  whole,    // by packs, of which no element lies beyond `columns`: neither pads nor single elements need a test
  packs,    // by packs
  elements  // one by one
};

__device__ __forceinline__ __nv_bfloat162 both_rounded(float x, float y, __nv_bfloat16) {
  return __floats2bfloat162_rn(x, y);
}
__device__ __forceinline__ __half2 both_rounded(float x, float y, __half) { return __floats2half2_rn(x, y); }
__device__ __forceinline__ float2 both_rounded(float x, float y, float) { return make_float2(x, y); }

/// Two at a time, which is one instruction for bf16 and f16.
template <class T>
__device__ __forceinline__ Pack<T> from_floats(const float (&from)[Pack<T>::kSize]) {
  Pack<T> pack;
#pragma unroll
  for (int k = 0; k < Pack<T>::kSize; k += 2) {
    const auto both = both_rounded(from[k], from[k + 1], T{});
    pack.at[k] = both.x;
    pack.at[k + 1] = both.y;
  }
  return pack;
}

/// Does element i + k of a row count, for a pack that begins at i?
template <Access kAccess>
__device__ __forceinline__ bool counts(int64_t i, int k, int64_t columns) {
  return kAccess == Access::whole || i + k < columns;
}

/// row[i .. i + kSize), of which those before `end` count.
template <class T, Access kAccess>
__device__ __forceinline__ Pack<T> load(const T* row, int64_t i, int64_t end) {
  Pack<T> pack;
  if constexpr (kAccess != Access::elements) pack = *reinterpret_cast<const Pack<T>*>(row + i);
  for (int k = 0; k < Pack<T>::kSize; ++k) {
    if (!counts<kAccess>(i, k, end))
      pack.at[k] = from_float<T>(0);
    else if constexpr (kAccess == Access::elements)
      pack.at[k] = row[i + k];
  }
  return pack;
}

/// To row[i .. i + kSize), or as much of it as lies before `end`.
template <Access kAccess, class T>
__device__ __forceinline__ void store(const Pack<T>& pack, T* row, int64_t i, int64_t end) {
  if constexpr (kAccess != Access::elements) {
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

// ---- rows of up to 1024 elements, which stay in registers (with_lane()): memory is read once

/// What a lane has of a row, as packs or as floats. kHeld: its packs; 0 if rows are too long for registers.
template <class T, Access kAccess_, int kHeld_>
struct LaneOf {
  using Element = T;
  static constexpr Access kAccess = kAccess_;
  static constexpr int kHeld = kHeld_, kSize = Pack<T>::kSize, kFloats = kHeld * kSize;
  using Packs = Bits[kHeld > 0 ? kHeld : 1];
  using Floats = float[kHeld > 0 ? kHeld : 1][kSize];

  /// body(p, i) for its packs p, which begin at element i, before `end`. Whole rows have at least so many packs that
  /// only the last ones need the comparison.
  template <class Body>
  static __device__ __forceinline__ void each(int end, Body&& body) {
    constexpr int kSure = kAccess != Access::whole ? 0 : kHeld <= 4 ? kHeld - 1 : kHeld - 2;
#pragma unroll
    for (int p = 0; p < kHeld; ++p) {
      const int i = (static_cast<int>(threadIdx.x % kWarp) + p * kWarp) * kSize;
      if (p < kSure || i < end) body(p, i);
    }
  }
  static __device__ __forceinline__ void load_at(Bits& to, const void* rows, int64_t row, int i, int columns,
                                                 int stride) {
    to = bits_of(load<T, kAccess>(static_cast<const T*>(rows) + row * stride, i, columns));
  }
  static __device__ __forceinline__ void load_row(Packs& to, const void* rows, int64_t row, int columns, int stride) {
    each(stride, [&](int p, int i) { load_at(to[p], rows, row, i, columns, stride); });
  }
  static __device__ __forceinline__ void load_floats_at(float (&to)[kSize], const float* from, int i, int columns) {
    if constexpr (kAccess == Access::whole) {
      load_floats(from + i, to);
    } else {
#pragma unroll
      for (int k = 0; k < kSize; ++k) to[k] = i + k < columns ? from[i + k] : 0;
    }
  }
  static __device__ __forceinline__ void load_all(Floats& to, const float* from, int columns) {
    each(columns, [&](int p, int i) { load_floats_at(to[p], from, i, columns); });
  }
};

/// Blocks of a multiprocessor, for which registers must suffice, without spills (tests/system/kernel_code_test.py).
template <class Lane>
constexpr int kBlocks = Lane::kAccess != Access::whole || Lane::kFloats > 24 ? 1
                        : Lane::kFloats > 8                                  ? 2
                                                                             : 4;
/// The gradient's; kDrops: a mask is drawn too.
template <class Lane, bool kDrops>
constexpr int kGradientBlocks = kBlocks<Lane> == 4                                  ? (kDrops ? 2 : 3)
                                : Lane::kHeld > 4 || (kDrops && Lane::kFloats > 16) ? 1
                                                                                    : kBlocks<Lane>;

/// Is something added to rows? Kernels of whole rows are compiled for both answers, others ask when they run.
template <class Lane, bool kAdds>
__device__ __forceinline__ bool adds_to_row(const void* addend) {
  return Lane::kAccess == Access::whole ? kAdds : addend != nullptr;
}

/// Can the kernel apply a mask? A warp has whole groups of it, and every lane has all its packs.
template <class Lane>
constexpr bool kMayDrop = Lane::kAccess == Access::whole&& Lane::kHeld > 0;

constexpr int kToDraw = 28;  // registers

/// What a lane keeps of its packs of a row, a bit for each element. All lanes of the warp call it, also those beyond
/// the row's end. One pack after the other, because the numbers of several would need too many registers.
template <class Lane>
__device__ __forceinline__ uint32_t kept_of_row(const DropoutMask& mask, const DropoutKey& key, int64_t row,
                                                int stride) {
  static_assert(Lane::kFloats <= 32);
  constexpr uint32_t kPack = (1u << Lane::kSize) - 1;
  uint32_t kept = 0;
#pragma unroll 1
  for (int p = 0; p < Lane::kHeld; ++p)
    kept |= (kept_of_pack<Lane::kSize>(mask, key, row * stride + int64_t{p} * kWarp * Lane::kSize) & kPack)
            << p * Lane::kSize;
  return kept;
}

/// kAdds: of whole rows, see adds_to_row. kDrops: x is dropped before the sum.
template <class Lane, bool kAdds, bool kDrops>
__global__ void __launch_bounds__(kThreads, kBlocks<Lane>) normalise_held(LayerNormArgs a, int rows_of_warp) {
  using T = typename Lane::Element;
  constexpr int kSize = Lane::kSize;
  const auto stride = static_cast<int>(a.stride),
             columns = Lane::kAccess == Access::whole ? stride : static_cast<int>(a.columns);
  typename Lane::Floats w = {}, b = {};
  Lane::load_all(w, a.w, columns);
  Lane::load_all(b, a.b, columns);
  const auto count = static_cast<float>(a.columns);
  int64_t row = (int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp) * rows_of_warp;
  // If registers suffice, the next row is on its way while this one is computed.
  constexpr int kRegisters = 65536 / (kThreads * kBlocks<Lane>),
                kUsed = 3 * Lane::kFloats + 24 + (kDrops ? kToDraw : 0);
  constexpr bool kAhead =
      Lane::kAccess == Access::whole && kUsed + Lane::kHeld * Bits::kSize * (kAdds ? 2 : 1) <= kRegisters;
  const bool adds = adds_to_row<Lane, kAdds>(a.residual);
  typename Lane::Packs x, r;
  const auto start_row = [&](int64_t of) {
    Lane::load_row(x, a.x, of, columns, stride);
    if (adds) Lane::load_row(r, a.residual, of, columns, stride);
  };
  DropoutKey key;
  if constexpr (kDrops) key = *a.mask.key;
  if (kAhead && row < a.rows) start_row(row);
  for (auto left = static_cast<int>(min(a.rows - row, int64_t{rows_of_warp})); left > 0; --left, ++row) {
    if constexpr (!kAhead) start_row(row);
    typename Lane::Floats v = {};
    float total = 0, squares = 0;
    uint32_t kept = 0;
    if constexpr (kDrops) kept = kept_of_row<Lane>(a.mask, key, row, stride);
    Lane::each(stride, [&](int p, int i) {
      to_floats<T>(x[p], v[p]);
      if constexpr (kDrops) {
#pragma unroll
        for (int k = 0; k < kSize; ++k) v[p][k] = dropped<T>(a.mask, kept, p * kSize + k, v[p][k]);
      }
      if (adds) {
        float other[kSize];
        to_floats<T>(r[p], other);
#pragma unroll
        for (int k = 0; k < kSize; ++k) v[p][k] += other[k];
        const Pack<T> sum = from_floats<T>(v[p]);
        store<Lane::kAccess>(sum, static_cast<T*>(a.sum) + row * stride, i, stride);
        to_floats<T>(bits_of(sum), v[p]);
      }
#pragma unroll
      for (int k = 0; k < kSize; ++k) total += v[p][k];
    });
    if (kAhead && left > 1) start_row(row + 1);
    const float mean = sum_over_lanes(total) / count;
    Lane::each(columns, [&](int p, int i) {
#pragma unroll
      for (int k = 0; k < kSize; ++k) {
        v[p][k] = counts<Lane::kAccess>(i, k, columns) ? v[p][k] - mean : 0;
        squares = __fmaf_rn(v[p][k], v[p][k], squares);
      }
    });
    const float rstd = 1 / sqrtf(sum_over_lanes(squares) / count + static_cast<float>(a.eps));
    Lane::each(stride, [&](int p, int i) {
      float y[kSize];
#pragma unroll
      for (int k = 0; k < kSize; ++k)
        y[k] = counts<Lane::kAccess>(i, k, columns) ? __fmaf_rn(v[p][k] * rstd, w[p][k], b[p][k]) : 0;
      store<Lane::kAccess>(from_floats<T>(y), static_cast<T*>(a.y) + row * stride, i, stride);
    });
    if (threadIdx.x % kWarp != 0) continue;
    if (a.mean != nullptr) a.mean[row] = mean;
    if (a.rstd != nullptr) a.rstd[row] = rstd;
  }
}

// ---- wider rows, which are read again from the caches

template <class T, Access kAccess>
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
      Pack<T> v = load<T, kAccess>(x, i, a.columns);
      const Pack<T> r = load<T, kAccess>(residual, i, a.columns);
      for (int k = 0; k < kSize; ++k) {
        v.at[k] = from_float<T>(to_float(v.at[k]) + to_float(r.at[k]));
        total += to_float(v.at[k]);
      }
      store<kAccess>(v, sum, i, a.stride);
    });
    x = sum;  // which this lane reads where it wrote
  } else {
    for_packs<T>(a.columns, [&](int64_t i) {
      const Pack<T> v = load<T, kAccess>(x, i, a.columns);
      for (int k = 0; k < kSize; ++k) total += to_float(v.at[k]);
    });
  }
  const auto count = static_cast<float>(a.columns);
  const float mean = sum_over_lanes(total) / count;
  float squares = 0;
  for_packs<T>(a.columns, [&](int64_t i) {
    const Pack<T> v = load<T, kAccess>(x, i, a.columns);
    for (int k = 0; k < kSize; ++k) {
      const float from_mean = counts<kAccess>(i, k, a.columns) ? to_float(v.at[k]) - mean : 0;
      squares = __fmaf_rn(from_mean, from_mean, squares);
    }
  });
  const float rstd = 1 / sqrtf(sum_over_lanes(squares) / count + static_cast<float>(a.eps));
  T* y = static_cast<T*>(a.y) + row * a.stride;
  for_packs<T>(a.stride, [&](int64_t i) {
    Pack<T> v = load<T, kAccess>(x, i, a.columns);
    for (int k = 0; k < kSize; ++k)
      v.at[k] = from_float<T>(
          counts<kAccess>(i, k, a.columns) ? __fmaf_rn((to_float(v.at[k]) - mean) * rstd, a.w[i + k], a.b[i + k]) : 0);
    store<kAccess>(v, y, i, a.stride);
  });
  if (threadIdx.x % kWarp != 0) return;
  if (a.mean != nullptr) a.mean[row] = mean;
  if (a.rstd != nullptr) a.rstd[row] = rstd;
}

/// At most as many parts as run at once (kGradientBlocks), or twice as many.
int64_t parts_of(int64_t rows, int64_t columns) {
  const int64_t most = kMultiprocessors * (columns <= 256 ? 3 : columns <= 1024 ? 2 : 4);
  return min(most, divide_up(rows, kTile));
}
__device__ __forceinline__ int64_t begin_of_part(int64_t part, int64_t parts, int64_t rows) {
  return min(rows, part * divide_up<int64_t>(rows, kWarps) / parts * kWarps);
}

/// Gradients of part blockIdx.x of the rows, warp w those of rows w, w + kWarps, ...; those of w and b into parts
/// [part][2][columns], the warps' sums in order. Shared memory: a row of floats for each warp.
/// kDrops: dx is also written as dropout leaves it.
template <class Lane, bool kAdds, bool kDrops>
__global__ void __launch_bounds__(kThreads, kGradientBlocks<Lane, kDrops>)
    gradients_of_held_part(LayerNormGradArgs a, int64_t parts, float* to) {
  using T = typename Lane::Element;
  constexpr int kSize = Lane::kSize, kColumns = Lane::kHeld * kWarp * kSize;
  const auto stride = static_cast<int>(a.stride),
             columns = Lane::kAccess == Access::whole ? stride : static_cast<int>(a.columns);
  const int64_t begin = begin_of_part(blockIdx.x, parts, a.rows), end = begin_of_part(blockIdx.x + 1, parts, a.rows);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const float share = 1 / static_cast<float>(a.columns);
  // If registers suffice, w stays in them, and the next row is on its way while this one is computed.
  constexpr int kRegisters = 65536 / (kThreads * kGradientBlocks<Lane, kDrops>),
                kUsed = 5 * Lane::kFloats + 24 + (kDrops ? kToDraw : 0);
  // Where elements are tested, so are the tests, and the packs beside the floats.
  constexpr int kTested = Lane::kAccess == Access::whole ? 0 : Lane::kFloats + 2 * Lane::kHeld * Bits::kSize;
  constexpr bool kHoldsW = kUsed + kTested <= kRegisters;
  constexpr bool kAhead =
      Lane::kAccess == Access::whole && kUsed + Lane::kHeld * Bits::kSize * (kAdds ? 3 : 2) <= kRegisters;
  const bool adds = adds_to_row<Lane, kAdds>(a.dsum);
  typename Lane::Floats w = {}, dw = {}, db = {};
  if constexpr (kHoldsW) Lane::load_all(w, a.w, columns);
  typename Lane::Packs x, dy;
  float mean = 0, next_rstd = 0;
  const auto start_row = [&](int64_t row) {
    Lane::load_row(x, a.x, row, columns, stride);
    Lane::load_row(dy, a.dy, row, columns, stride);
    mean = a.mean[row], next_rstd = a.rstd[row];
  };
  DropoutKey key;
  if constexpr (kDrops) key = *a.mask.key;
  int64_t row = begin + warp;
  if (kAhead && row < end) start_row(row);
  for (auto left = static_cast<int>(end - row); left > 0; left -= kWarps, row += kWarps) {
    if constexpr (!kAhead) start_row(row);
    typename Lane::Packs dsum;
    if (kAhead && adds) Lane::load_row(dsum, a.dsum, row, columns, stride);
    const float rstd = next_rstd;
    typename Lane::Floats n = {}, g = {};
    float g_sum = 0, gn_sum = 0;
    Lane::each(columns, [&](int p, int i) {
      to_floats<T>(x[p], n[p]);
      to_floats<T>(dy[p], g[p]);
      if constexpr (!kHoldsW) Lane::load_floats_at(w[p], a.w, i, columns);
#pragma unroll
      for (int k = 0; k < kSize; ++k) {
        if (!counts<Lane::kAccess>(i, k, columns)) continue;
        n[p][k] = (n[p][k] - mean) * rstd;
        dw[p][k] = __fmaf_rn(g[p][k], n[p][k], dw[p][k]);
        db[p][k] += g[p][k];
        g[p][k] *= w[p][k];
        g_sum += g[p][k];
        gn_sum = __fmaf_rn(g[p][k], n[p][k], gn_sum);
      }
    });
    if (kAhead && left > kWarps) start_row(row + kWarps);
    if (a.dx == nullptr) continue;
    const float g_mean = sum_over_lanes(g_sum) * share, gn_mean = sum_over_lanes(gn_sum) * share;
    uint32_t kept = 0;
    if constexpr (kDrops) kept = kept_of_row<Lane>(a.mask, key, row, stride);
    Lane::each(stride, [&](int p, int i) {
      float dx[kSize], before[kSize] = {};
      if (!kAhead && adds) Lane::load_at(dsum[p], a.dsum, row, i, columns, stride);
      if (adds) to_floats<T>(dsum[p], before);
#pragma unroll
      for (int k = 0; k < kSize; ++k) {
        dx[k] = 0;
        if (!counts<Lane::kAccess>(i, k, columns)) continue;
        dx[k] = rstd * (g[p][k] - __fmaf_rn(n[p][k], gn_mean, g_mean));
        if (adds) dx[k] += before[k];
      }
      const Pack<T> whole = from_floats<T>(dx);
      store<Lane::kAccess>(whole, static_cast<T*>(a.dx) + row * stride, i, stride);
      if constexpr (kDrops) {
        to_floats<T>(bits_of(whole), dx);
#pragma unroll
        for (int k = 0; k < kSize; ++k) dx[k] = dropped<T>(a.mask, kept, p * kSize + k, dx[k]);
        store<Lane::kAccess>(from_floats<T>(dx), static_cast<T*>(a.dropped) + row * stride, i, stride);
      }
    });
  }
  auto* sums = shared_memory<float>();  // [kWarps][kColumns]
  const auto add_warps = [&](const typename Lane::Floats& of_lane, int which) {
    Lane::each(kColumns, [&](int p, int i) {
#pragma unroll
      for (int k = 0; k < kSize; k += 4)
        *reinterpret_cast<Pack<float>*>(sums + warp * kColumns + i + k) = {of_lane[p][k], of_lane[p][k + 1],
                                                                           of_lane[p][k + 2], of_lane[p][k + 3]};
    });
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < columns; c += kThreads) {
      float sum = 0;
      for (int of = 0; of < kWarps; ++of) sum += sums[of * kColumns + c];
      to[(int64_t{blockIdx.x} * 2 + which) * columns + c] = sum;
    }
    __syncthreads();
  };
  add_warps(dw, 0);
  add_warps(db, 1);
}

/// A row's dx, by a warp.
template <class T, Access kAccess>
__device__ __forceinline__ void input_gradient(const LayerNormGradArgs& a, int64_t row) {
  constexpr int kSize = Pack<T>::kSize;
  const int64_t begin = row * a.stride;
  const T *x = static_cast<const T*>(a.x) + begin, *dy = static_cast<const T*>(a.dy) + begin;
  const float mean = a.mean[row], rstd = a.rstd[row];
  float g_sum = 0, gn_sum = 0;
  for_packs<T>(a.columns, [&](int64_t i) {
    const Pack<T> v = load<T, kAccess>(x, i, a.columns), d = load<T, kAccess>(dy, i, a.columns);
    for (int k = 0; k < kSize; ++k) {
      if (!counts<kAccess>(i, k, a.columns)) continue;
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
    const Pack<T> v = load<T, kAccess>(x, i, a.columns), d = load<T, kAccess>(dy, i, a.columns);
    Pack<T> result;
    if (dsum != nullptr) result = load<T, kAccess>(dsum, i, a.columns);
    for (int k = 0; k < kSize; ++k) {
      float value = 0;
      if (counts<kAccess>(i, k, a.columns)) {
        const float n = (to_float(v.at[k]) - mean) * rstd;
        value = rstd * (to_float(d.at[k]) * a.w[i + k] - __fmaf_rn(n, gn_mean, g_mean));
        if (dsum != nullptr) value += to_float(result.at[k]);
      }
      result.at[k] = from_float<T>(value);
    }
    store<kAccess>(result, dx, i, a.stride);
  });
}

/// Gradients of the part blockIdx.x of the rows; those of w and b into parts [part][2][columns].
template <class T, Access kAccess>
__global__ void __launch_bounds__(kThreads) gradients_of_part(LayerNormGradArgs a, int64_t parts, float* to) {
  const int64_t begin = begin_of_part(blockIdx.x, parts, a.rows), end = begin_of_part(blockIdx.x + 1, parts, a.rows);
  const T *x = static_cast<const T*>(a.x), *dy = static_cast<const T*>(a.dy);
  float *dw = to + int64_t{blockIdx.x} * 2 * a.columns, *db = dw + a.columns;
  for (int64_t first = begin; first < end; first += kTile) {
    const auto rows = static_cast<int>(min(end - first, kTile));
    if (a.dx != nullptr)
      for (int r = static_cast<int>(threadIdx.x) / kWarp; r < rows; r += kWarps)
        input_gradient<T, kAccess>(a, first + r);
    for (int64_t c = threadIdx.x; c < a.columns; c += kThreads) {
      float w_sum = 0, b_sum = 0;
      for (int r = 0; r < rows; ++r) {
        const int64_t row = first + r, i = row * a.stride + c;
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
  wait_for_previous();
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  double sum = 0;
  if (column < columns)
#pragma unroll 8
    for (int64_t part = threadIdx.y; part < count; part += kMergeLanes)
      sum += static_cast<double>(parts[(part * 2 + blockIdx.y) * columns + column]);
  double* lanes = shared_memory<double>();  // [kMergeLanes][kWarp]
  lanes[threadIdx.y * kWarp + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int lane = 1; lane < kMergeLanes; ++lane) sum += lanes[lane * kWarp + threadIdx.x];
  (blockIdx.y == 0 ? dw : db)[column] = static_cast<float>(sum);
}

/// call(LaneOf<T, kAccess, packs of a lane>{})
template <class T, Access kAccess, class Call>
cudaError_t with_lane(int64_t stride, Call call) {
  constexpr bool kWhole = kAccess == Access::whole;
  const int64_t packs = divide_up<int64_t>(stride, kWarp * Pack<T>::kSize);
  if (packs == 1) return call(LaneOf<T, kAccess, 1>{});
  if (packs == 2) return call(LaneOf<T, kAccess, 2>{});
  if constexpr (kWhole)
    if (packs == 3) return call(LaneOf<T, kAccess, 3>{});
  if (packs <= 4) return call(LaneOf<T, kAccess, 4>{});
  if constexpr (sizeof(T) == sizeof(float)) {
    if constexpr (kWhole)
      if (packs <= 6) return call(LaneOf<T, kAccess, 6>{});
    if (packs <= 8) return call(LaneOf<T, kAccess, 8>{});
  }
  return call(LaneOf<T, kAccess, 0>{});
}
/// The same with the access that pointers and sizes allow; `aligned`: are all pointers to 16 bytes?
template <class T, class Args, class Call>
cudaError_t with_lane(const Args& a, bool aligned, Call call) {
  if (!aligned || a.stride % Pack<T>::kSize != 0) return with_lane<T, Access::elements>(a.stride, call);
  if (a.columns != a.stride || !aligned_16(a.w)) return with_lane<T, Access::packs>(a.stride, call);
  return with_lane<T, Access::whole>(a.stride, call);
}

template <class Args>
bool sensible(const Args& a) {
  return a.rows > 0 && a.columns > 0 && a.stride >= a.columns;
}

/// Packs that a lane holds of a row without pads; 0: too many.
int64_t held_packs(Type type, int64_t stride) {
  const int64_t size = type == Type::f32 ? 4 : 8, packs = divide_up<int64_t>(stride, kWarp * size);
  return packs <= (type == Type::f32 ? 8 : 4) ? packs : 0;
}

}  // namespace

bool drops_elements(Type type, int64_t columns, int64_t stride) {
  return columns == stride && stride % kDropoutGroup == 0 && held_packs(type, stride) > 0;
}

cudaError_t layer_norm(const LayerNormArgs& a, cudaStream_t stream) {
  if (!sensible(a) || (a.residual == nullptr) != (a.sum == nullptr)) return cudaErrorInvalidValue;
  const bool drops = a.mask.key != nullptr;
  if (drops && (a.residual == nullptr || !drops_elements(a.type, a.columns, a.stride))) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) {
    return with_lane<T>(a, aligned_16(a.x, a.residual, a.sum, a.y, a.b), [&]<class Lane>(Lane) {
      const auto blocks = [&](int64_t rows) { return static_cast<unsigned>(divide_up(a.rows, rows)); };
      if constexpr (Lane::kHeld > 0) {
        const auto rows = static_cast<int>(min(kMostRowsOfWarp, divide_up(a.rows, kManyWarps)));
        const Grid grid{.blocks = blocks(int64_t{kWarps} * rows), .threads = kThreads};
        if constexpr (kMayDrop<Lane>)
          if (drops) return launch(normalise_held<Lane, true, true>, grid, stream, a, rows);
        if (drops) return cudaErrorInvalidValue;
        if constexpr (Lane::kAccess == Access::whole)
          if (a.residual == nullptr) return launch(normalise_held<Lane, false, false>, grid, stream, a, rows);
        return launch(normalise_held<Lane, true, false>, grid, stream, a, rows);
      } else {
        return launch(normalise_rows<T, Lane::kAccess>, {.blocks = blocks(kWarps), .threads = kThreads}, stream, a);
      }
    });
  });
}

size_t layer_norm_grad_workspace(int64_t rows, int64_t columns) {
  return static_cast<size_t>(parts_of(rows, columns) * 2 * columns) * sizeof(float);
}

cudaError_t layer_norm_grad(const LayerNormGradArgs& a, cudaStream_t stream) {
  if (!sensible(a)) return cudaErrorInvalidValue;
  const bool drops = a.mask.key != nullptr;
  if (drops && (a.dx == nullptr || a.dsum == nullptr || !drops_elements(a.type, a.columns, a.stride)))
    return cudaErrorInvalidValue;
  const int64_t parts = parts_of(a.rows, a.columns);
  const cudaError_t error = with_type(a.type, [&]<class T>(T) {
    return with_lane<T>(a, aligned_16(a.x, a.dy, a.dsum, a.dx, a.dropped), [&]<class Lane>(Lane) {
      const Grid grid{.blocks = static_cast<unsigned>(parts),
                      .threads = kThreads,
                      .shared_bytes = kWarps * Lane::kFloats * kWarp * sizeof(float)};
      const auto start = [&](auto kernel) { return launch(kernel, grid, stream, a, parts, a.workspace); };
      if constexpr (kMayDrop<Lane>)
        if (drops) return start(gradients_of_held_part<Lane, true, true>);
      if (drops) return cudaErrorInvalidValue;
      if constexpr (Lane::kHeld > 0) {
        if constexpr (Lane::kAccess == Access::whole)
          if (a.dsum == nullptr) return start(gradients_of_held_part<Lane, false, false>);
        return start(gradients_of_held_part<Lane, true, false>);
      } else {
        return start(gradients_of_part<T, Lane::kAccess>);
      }
    });
  });
  if (error != cudaSuccess) return error;
  const Grid merge{.blocks = {static_cast<unsigned>(divide_up<int64_t>(a.columns, kWarp)), 2},
                   .threads = {kWarp, kMergeLanes},
                   .shared_bytes = kMergeLanes * kWarp * sizeof(double)};
  return launch_early(merge_parts, merge, stream, a.workspace, parts, a.columns, a.dw, a.db);
}

}  // namespace ct::kernels
