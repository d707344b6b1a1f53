// What batch norm's passes share (batch_norm.h): how blocks divide the matrix, how a thread reads and writes its rows,
// and how the last blocks merge the parts' numbers.
#pragma once

#include <algorithm>

#include "batch_norm.h"
#include "last_block.h"
#include "pack_bits.h"

namespace ct::kernels {

constexpr int kThreads = 256;
constexpr int kMostColumns = 32;        // of a block, each of one access: 512 contiguous bytes
constexpr int64_t kRowsPerThread = 64;  // at most: runs that are summed in f32; longer where parts would be too many
constexpr int64_t kLeastRows = 4;       // fewer are not worth a block
/// Blocks at a time on an SM, that is, registers a thread may have; single elements need more to be put together.
template <bool Aligned>
constexpr int kResident = Aligned ? 3 : 2;
template <bool Aligned>
constexpr int kResidentStatistics = Aligned ? 4 : 2;
/// Blocks that sum, or a multiple: as many as the 132 SMs of an H100 hold at a time, so that none has to wait for a
/// place and is then alone.
constexpr int64_t kStatisticsBlocks = 512, kGradientBlocks = 384;
constexpr int64_t kResultBlocks = 2048;  // of the last pass, which sums nothing, before threads get more rows
constexpr int64_t kMostResultRows = 16;
/// Parts times channels of a tile that one block merges at once: a thread 16 of a channel. More parts are merged in
/// groups first, of about as many groups as a group has parts.
constexpr int64_t kMergedAtOnce = 16 * kThreads;
constexpr int64_t kMostParts = 128 * 128;

/// How blocks share the matrix: part by part, and within a part in tiles of `columns` accesses of `pack` elements. A
/// thread has one column and every lanes-th row of the part.
struct Partition {
  int64_t rows, channels, part_rows, parts;
  int pack, tiles, columns, lanes;
  int first_tile = 0;         // of this launch
  int group = 1, groups = 0;  // parts of a group, and groups

  dim3 threads() const { return dim3(columns, lanes); }
};

inline void choose_groups(Partition& p) {
  if (p.parts * p.columns * p.pack > kMergedAtOnce)
    while (p.group * p.group < p.parts) p.group *= 2;
  p.groups = static_cast<int>(divide_up<int64_t>(p.parts, p.group));
}

inline Partition partition(const BatchNormShape& s, int64_t blocks) {
  const int whole = s.type == Type::f32 ? 4 : 8;
  Partition p;
  p.rows = s.rows;
  p.channels = s.channels;
  p.pack = s.channels % whole == 0 ? whole : 1;
  const int64_t accesses = s.channels / p.pack;
  p.tiles = static_cast<int>(divide_up<int64_t>(accesses, kMostColumns));
  p.columns = static_cast<int>(divide_up<int64_t>(accesses, p.tiles));
  p.lanes = kThreads / p.columns;
  const int64_t rounds = divide_up(s.rows * p.tiles, p.lanes * blocks * kRowsPerThread);
  p.part_rows = p.lanes * std::max({divide_up(s.rows * p.tiles, p.lanes * blocks * rounds), kLeastRows,
                                    divide_up(s.rows, p.lanes * kMostParts)});
  p.parts = divide_up(s.rows, p.part_rows);
  choose_groups(p);
  return p;
}

/// For the last pass, where elements stand alone: smaller parts, so that all SMs end at about the same time.
inline Partition partition_of_result(Partition p) {
  const int64_t wanted = kLeastRows * divide_up(p.rows * p.tiles, p.lanes * kResultBlocks * kLeastRows);
  p.part_rows = p.lanes * std::min(wanted, kMostResultRows);
  p.parts = divide_up(p.rows, p.part_rows);
  return p;
}

inline Grid grid_of_result(const Partition& p) { return {dim3(static_cast<unsigned>(p.parts * p.tiles)), p.threads()}; }

/// The workspace: two numbers of each part and channel, [part][2][channel], and factors [channel] of the last pass. The
/// numbers of a group take the place of its first part's.
struct Scratch {
  double* parts;
  float *scale, *slope, *offset;
  float* forward_scale;  // of a gradient: the scale by which the result was computed
};
constexpr int kFactors = 4;

inline Scratch scratch(const Partition& p, void* workspace) {
  auto* parts = static_cast<double*>(workspace);
  auto* factors = reinterpret_cast<float*>(parts + p.parts * 2 * p.channels);
  return {parts, factors, factors + p.channels, factors + 2 * p.channels, factors + 3 * p.channels};
}

template <int N>
struct Floats {
  float at[N];
};

/// N elements as they are in memory: one, or a whole access.
template <class T, int N>
struct Elements {
  std::conditional_t<N == 1, T, Bits> of;
};
/// Aligned: by one access.
template <int N, bool Aligned, class T>
__device__ __forceinline__ Elements<T, N> load(const T* from) {
  if constexpr (N == 1) {
    return {*from};
  } else {
    Pack<T> pack;
    if constexpr (Aligned)
      pack = *reinterpret_cast<const Pack<T>*>(from);
    else
      for (int i = 0; i < N; ++i) pack.at[i] = from[i];
    return {bits_of(pack)};
  }
}
template <class T, int N>
__device__ __forceinline__ Floats<N> floats(const Elements<T, N>& elements) {
  Floats<N> x;
  if constexpr (N == 1)
    x.at[0] = to_float(elements.of);
  else
    to_floats<T>(elements.of, x.at);
  return x;
}
/// Factors of the thread's channels, from numbers [channel].
template <int N, bool Aligned>
__device__ __forceinline__ Floats<N> factors(const float* from) {
  Floats<N> x;
  if constexpr (Aligned) {
    load_floats(from, x.at);
  } else {
    for (int i = 0; i < N; ++i) x.at[i] = from[i];
  }
  return x;
}
template <int N, bool Aligned, class T>
__device__ __forceinline__ void store(const Floats<N>& x, T* to) {
  if constexpr (Aligned && N > 1) {
    Pack<T> pack;
    for (int i = 0; i < N; ++i) pack.at[i] = from_float<T>(x.at[i]);
    *reinterpret_cast<Pack<T>*>(to) = pack;
  } else {
    for (int i = 0; i < N; ++i) to[i] = from_float<T>(x.at[i]);
  }
}

/// What the result is (x - mean) times: the same bits wherever it is computed.
__device__ __forceinline__ float scale_of(float w, float var, double eps) {
  return static_cast<float>(w / sqrt(var + eps));
}
/// The result of one element without a residual, before ReLU.
__device__ __forceinline__ float normalised(float x, float mean, float scale, float b) {
  return __fmaf_rn(x - mean, scale, b);
}

/// Where a thread works.
struct Work {
  int part, channel;   // the first of the thread's channels
  int64_t begin, end;  // rows
  bool any;            // not beyond the last channel
};
__device__ __forceinline__ Work work(const Partition& p, unsigned tile, unsigned part) {
  Work w;
  w.part = static_cast<int>(part);
  w.begin = w.part * p.part_rows;
  w.end = min(p.rows, w.begin + p.part_rows);
  w.channel = static_cast<int>(((p.first_tile + tile) * p.columns + threadIdx.x) * p.pack);
  w.any = w.channel < p.channels;
  return w;
}
/// Of a kernel that sums, whose grid is [part][tile].
__device__ __forceinline__ Work work(const Partition& p) { return work(p, blockIdx.x, blockIdx.y); }
/// Of a kernel of the last pass, of any number of parts. From the last rows to the first: the first pass read the last
/// rows last, so caches still hold them.
__device__ __forceinline__ Work work_backwards(const Partition& p) {
  const unsigned block = gridDim.x - 1 - blockIdx.x;
  return work(p, block % p.tiles, block / p.tiles);
}

/// use(index of the first element, load(index)) for the thread's rows, in order. AtOnce rows are loaded before the
/// first of them is used, to have enough bytes on their way; where fewer are left the first is loaded in the others'
/// place, so that no branch comes between loads.
template <int AtOnce, class Load, class Use>
__device__ __forceinline__ void for_rows(const Partition& p, const Work& w, Load&& load, Use&& use) {
  const int64_t step = p.channels * p.lanes;
  int64_t at = (w.begin + threadIdx.y) * p.channels + w.channel;
  for (int left = static_cast<int>(w.end - w.begin) - static_cast<int>(threadIdx.y); left > 0;
       left -= AtOnce * p.lanes, at += AtOnce * step) {
    decltype(load(at)) rows[AtOnce];
    for (int i = 0; i < AtOnce; ++i) rows[i] = load(i * p.lanes < left ? at + i * step : at);
    for (int i = 0; i < AtOnce; ++i)
      if (i * p.lanes < left) use(at + i * step, rows[i]);
  }
}

__device__ __forceinline__ int thread_of_block() { return static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); }

/// The sums over the block's threads of one column come to its lane 0, always in the same order; thread i of the block
/// is that of column i % columns in lane i / columns, which is `lane`. Shared memory: N numbers per thread. All threads
/// of the block call it.
template <class Number, int N>
__device__ __forceinline__ void sum_over_lanes(Number (&own)[N], int columns, int lanes, int lane) {
  Number* all = shared_memory<Number>();
  const int threads = blockDim.x * blockDim.y, mine = thread_of_block();
  for (int i = 0; i < N; ++i) all[i * threads + mine] = own[i];
  __syncthreads();
  while (lanes > 1) {
    const int half = (lanes + 1) / 2;
    if (lane + half < lanes)
      for (int i = 0; i < N; ++i) all[i * threads + mine] = own[i] += all[i * threads + mine + half * columns];
    __syncthreads();
    lanes = half;
  }
}
/// Over the threads of one threadIdx.x, to threadIdx.y == 0.
template <class Number, int N>
__device__ __forceinline__ void sum_over_lanes(Number (&own)[N]) {
  sum_over_lanes(own, blockDim.x, blockDim.y, threadIdx.y);
}

/// Parts, or groups of parts, of which a block merges `count`: every `stride`-th part from `first` on.
struct Range {
  int first, stride, count;

  __device__ __forceinline__ int part(int i) const { return first + i * stride; }
  __device__ __forceinline__ double rows(const Partition& p, int i) const {
    return static_cast<double>(min(stride * p.part_rows, p.rows - part(i) * p.part_rows));
  }
  /// Of all of them together.
  __device__ __forceinline__ double rows(const Partition& p) const {
    return static_cast<double>(min(count * stride * p.part_rows, p.rows - first * p.part_rows));
  }
};

/// One of the two numbers of a part, or of the group that begins with it.
__device__ __forceinline__ double* number_at(const Partition& p, double* parts, int part, int which, int channel) {
  return parts + (2 * part + which) * p.channels + channel;
}
/// The same, which another block of the same kernel may have written.
__device__ __forceinline__ double number(const Partition& p, double* parts, int part, int which, int channel) {
  return *static_cast<const volatile double*>(number_at(p, parts, part, which, channel));
}

/// Merges the range's numbers of a tile's channels in one order: lane l of a channel's n threads adds the numbers l,
/// l + n, ...; lanes are added by halves. use(channel, the two numbers) by one thread of every channel of the tile.
/// Shared memory: two doubles per thread.
template <class Merge, class Use>
__device__ __forceinline__ void merge_range(const Partition& p, int tile, const Range& range, const Merge& merge,
                                            Use&& use) {
  constexpr int kAtOnce = 6;  // as in for_rows, loads come first
  const int channels = p.columns * p.pack, lanes = static_cast<int>(blockDim.x * blockDim.y) / channels;
  const int lane = thread_of_block() / channels, channel = tile * channels + thread_of_block() % channels;
  const bool any = lane < lanes && channel < p.channels;
  const double origin = any ? merge.origin(p, range, channel) : 0;
  double sums[2] = {};
  for (int first = lane; any && first < range.count; first += kAtOnce * lanes) {
    double a[kAtOnce], b[kAtOnce];
    for (int k = 0; k < kAtOnce; ++k) {
      const int part = range.part(first + k * lanes < range.count ? first + k * lanes : first);
      a[k] = number(p, merge.scratch.parts, part, 0, channel);
      b[k] = number(p, merge.scratch.parts, part, 1, channel);
    }
    for (int k = 0; k < kAtOnce; ++k)
      if (first + k * lanes < range.count) merge.add(origin, range.rows(p, first + k * lanes), a[k], b[k], sums);
  }
  sum_over_lanes(sums, channels, lanes, lane);
  if (lane != 0 || !any) return;
  merge.combine(origin, range.rows(p), sums);
  use(channel, sums);
}

/// What a block does after it has written its part. The last block of a group merges the group, and the last of these
/// blocks merges the groups. Tickets: one of each tile, then those of its groups, if there are any.
template <class Merge>
__device__ __forceinline__ void merge_by_last_blocks(const Partition& p, const Merge& merge, unsigned* tickets) {
  const int own_tile = static_cast<int>(blockIdx.x), tile = p.first_tile + own_tile;
  if (p.group > 1) {
    const int group = static_cast<int>(blockIdx.y) / p.group, first = group * p.group;
    const Range range{first, 1, min(p.group, static_cast<int>(p.parts) - first)};
    if (!is_last_block(tickets + p.tiles + own_tile * p.groups + group, static_cast<unsigned>(range.count))) return;
    merge_range(p, tile, range, merge, [&](int channel, const double(&numbers)[2]) {
      for (int which = 0; which < 2; ++which)
        *number_at(p, merge.scratch.parts, first, which, channel) = numbers[which];
    });
  }
  if (!is_last_block(tickets + own_tile, static_cast<unsigned>(p.groups))) return;
  merge_range(p, tile, {0, p.group, p.groups}, merge,
              [&](int channel, const double(&numbers)[2]) { merge.finish(p, channel, numbers); });
}

/// call(element, std::integral_constant of elements an access, of whether they are aligned).
template <class Call, class... Pointers>
cudaError_t with_access(const BatchNormShape& shape, Call call, const Pointers*... pointers) {
  return with_type(shape.type, [&](auto element) {
    constexpr int kWhole = Pack<decltype(element)>::kSize;
    if (shape.channels % kWhole != 0) return call(element, std::integral_constant<int, 1>(), std::false_type());
    if (!aligned_16(pointers...)) return call(element, std::integral_constant<int, kWhole>(), std::false_type());
    return call(element, std::integral_constant<int, kWhole>(), std::true_type());
  });
}

inline size_t sums_bytes(const Partition& p, int n) { return size_t{2} * n * p.columns * p.lanes * sizeof(float); }

/// Launches kernel(p, args..., merge, tickets), which makes the parts and merges them: once, but for more tiles than
/// there are tickets for.
template <class Kernel, class Merge, class... Args>
cudaError_t launch_parts(Kernel kernel, const Partition& all, size_t shared_bytes, cudaStream_t stream,
                         const Merge& merge, unsigned* tickets, Args... args) {
  shared_bytes = std::max(shared_bytes, size_t{2} * all.columns * all.lanes * sizeof(double));
  const auto most_tiles = static_cast<int>(all.group == 1 ? kTickets : kTickets / (all.groups + 1));
  for (Partition p = all; p.first_tile < all.tiles; p.first_tile += most_tiles) {
    p.tiles = std::min(most_tiles, all.tiles - p.first_tile);
    const Grid grid{dim3(p.tiles, static_cast<unsigned>(p.parts)), p.threads(), shared_bytes};
    if (const cudaError_t error = launch(kernel, grid, stream, p, args..., merge, tickets)) return error;
  }
  return cudaSuccess;
}

inline bool valid(const BatchNormShape& s) { return s.rows > 0 && s.channels > 0; }
inline bool may_have_mask(const BatchNormShape& s) { return s.type != Type::f32 && s.channels % 8 == 0; }

/// scratch's scale of the result, of statistics that are given.
cudaError_t launch_given_statistics(const BatchNormShape& shape, double eps, const float* w, const float* var,
                                    float* scale, cudaStream_t stream);

}  // namespace ct::kernels
