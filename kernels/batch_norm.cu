#include <algorithm>

#include "batch_norm.h"
#include "last_block.h"
#include "pack_bits.h"

namespace ct::kernels {
namespace {

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

void choose_groups(Partition& p) {
  if (p.parts * p.columns * p.pack > kMergedAtOnce)
    while (p.group * p.group < p.parts) p.group *= 2;
  p.groups = static_cast<int>(divide_up<int64_t>(p.parts, p.group));
}

Partition partition(const BatchNormShape& s, int64_t blocks) {
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
Partition partition_of_result(Partition p) {
  const int64_t wanted = kLeastRows * divide_up(p.rows * p.tiles, p.lanes * kResultBlocks * kLeastRows);
  p.part_rows = p.lanes * std::min(wanted, kMostResultRows);
  p.parts = divide_up(p.rows, p.part_rows);
  return p;
}

Grid grid_of_result(const Partition& p) { return {dim3(static_cast<unsigned>(p.parts * p.tiles)), p.threads()}; }

/// The workspace: two numbers of each part and channel, [part][2][channel], and factors [channel] of the last pass. The
/// numbers of a group take the place of its first part's.
struct Scratch {
  double* parts;
  float *scale, *slope, *offset;
  float* forward_scale;  // of a gradient: the scale by which the result was computed
};
constexpr int kFactors = 4;

Scratch scratch(const Partition& p, void* workspace) {
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

/// Merges the parts' statistics to those of all rows.
struct StatisticsMerge {
  double eps;
  const float* w;
  Scratch scratch;
  float *mean, *var;

  /// The first mean, from which the means' differences are summed.
  __device__ __forceinline__ double origin(const Partition& p, const Range& range, int channel) const {
    return number(p, scratch.parts, range.first, 0, channel);
  }
  /// Adds the difference of the mean `a` of that many rows and the squared differences, of which `b` are from `a`.
  __device__ __forceinline__ void add(double origin, double rows, double a, double b, double (&sums)[2]) const {
    const double from_origin = a - origin;
    sums[0] += rows * from_origin;
    sums[1] += b + rows * from_origin * from_origin;
  }
  /// The two numbers of the rows that `sums` are of.
  __device__ __forceinline__ void combine(double origin, double rows, double (&sums)[2]) const {
    const double shift = sums[0] / rows;
    sums[1] -= shift * sums[0];
    sums[0] = origin + shift;
  }
  __device__ __forceinline__ void finish(const Partition& p, int channel, const double (&of_all)[2]) const {
    const double variance = of_all[1] / static_cast<double>(p.rows);
    const auto rounded = static_cast<float>(variance < 0 ? 0 : variance);  // NaN stays NaN
    mean[channel] = static_cast<float>(of_all[0]);
    var[channel] = rounded;
    scratch.scale[channel] = scale_of(w[channel], rounded, eps);
  }
};

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

/// A part's mean and sum of squared differences from it, of every channel; the last blocks also merge them.
template <class T, int N, bool Aligned>
__global__ void __launch_bounds__(kThreads, kResidentStatistics<Aligned>)
    statistics_of_parts(Partition p, const T* __restrict__ x, StatisticsMerge merge, unsigned* tickets) {
  Work w = work(p);
  if (!w.any) w.end = w.begin;  // no row: without a branch around the loop
  float sums[2 * N] = {};
  const Floats<N> first = floats(load<N, Aligned>(x + w.begin * p.channels + (w.any ? w.channel : 0)));
  const auto of_row = [&](int64_t at) { return load<N, Aligned>(x + at); };
  for_rows<4>(p, w, of_row, [&](int64_t, const Elements<T, N>& row) {
    const Floats<N> v = floats(row);
    for (int i = 0; i < N; ++i) {
      const float from_first = v.at[i] - first.at[i];
      sums[i] += from_first;
      sums[N + i] = __fmaf_rn(from_first, from_first, sums[N + i]);
    }
  });
  sum_over_lanes(sums);
  if (threadIdx.y == 0 && w.any) {
    const auto rows = static_cast<double>(w.end - w.begin);
    double* out = merge.scratch.parts + int64_t{w.part} * 2 * p.channels + w.channel;
    for (int i = 0; i < N; ++i) {
      const double mean = sums[i] / rows;
      out[i] = first.at[i] + mean;
      out[p.channels + i] = sums[N + i] - mean * sums[i];
    }
  }
  merge_by_last_blocks(p, merge, tickets);
}

/// What StatisticsMerge leaves for the result, of statistics that are given.
__global__ void __launch_bounds__(kThreads)
    given_statistics(int64_t channels, double eps, const float* w, const float* var, float* scale) {
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (channel < channels) scale[channel] = scale_of(w[channel], var[channel], eps);
}

/// Keeps: also the mask.
template <class T, int N, bool Aligned, bool Residual, bool Keeps>
__global__ void __launch_bounds__(kThreads, kResident<Aligned>)
    result(Partition p, bool relu, const T* __restrict__ x, const T* __restrict__ residual,
           const float* __restrict__ mean, const float* __restrict__ scale, const float* __restrict__ b,
           T* __restrict__ y, uint8_t* __restrict__ mask) {
  const Work w = work_backwards(p);
  if (!w.any) return;
  struct Row {
    Elements<T, N> x, residual;
  };
  const auto of_row = [&](int64_t at) {
    Row row;
    row.x = load<N, Aligned>(x + at);
    if constexpr (Residual) row.residual = load<N, Aligned>(residual + at);
    return row;
  };
  const auto means = factors<N, Aligned>(mean + w.channel), scales = factors<N, Aligned>(scale + w.channel),
             shifts = factors<N, Aligned>(b + w.channel);
  for_rows<Residual ? 2 : 4>(p, w, of_row, [&](int64_t at, const Row& row) {
    Floats<N> v = floats(row.x), r = {};
    if constexpr (Residual) r = floats(row.residual);
    for (int i = 0; i < N; ++i) {
      v.at[i] = normalised(v.at[i], means.at[i], scales.at[i], shifts.at[i]);
      if constexpr (Residual) v.at[i] += r.at[i];
      if (relu && v.at[i] <= 0) v.at[i] = 0;  // NaN stays NaN
    }
    store<N, Aligned>(v, y + at);
    if constexpr (Keeps) {
      unsigned bits = 0;
      for (int i = 0; i < N; ++i) bits |= to_float(from_float<T>(v.at[i])) <= 0 ? 0u : 1u << i;
      mask[at / N] = static_cast<uint8_t>(bits);
    }
  });
}

/// Where dy passes: everywhere, as there was no ReLU; where y says so; where bits, kept of y, say so; where y, computed
/// again from x, says so.
enum class Mask : uint8_t { none, from_y, bits, again };

/// What masks of rows are read from: y or bits.
template <class T>
struct MaskSource {
  const T* y;
  const uint8_t* bits;
};

/// Of a row and a thread's channels, what g is made of; y only with Mask::from_y, bits only with Mask::bits. Sum: dy is
/// dy + more_dy, rounded to T.
template <class T, int N, bool Aligned, Mask M, bool Sum = false>
struct GradientRow {
  Elements<T, N> x, y, dy, more_dy;
  unsigned bits;

  static __device__ __forceinline__ GradientRow at(const T* x, const MaskSource<T>& mask, const T* dy, const T* more_dy,
                                                   int64_t at) {
    GradientRow row;
    row.x = load<N, Aligned>(x + at);
    if constexpr (M == Mask::from_y) row.y = load<N, Aligned>(mask.y + at);
    if constexpr (M == Mask::bits) row.bits = mask.bits[at / N];
    row.dy = load<N, Aligned>(dy + at);
    if constexpr (Sum) row.more_dy = load<N, Aligned>(more_dy + at);
    return row;
  }
  /// g: dy as ReLU lets it through. Small numbers are zeros once they are rounded to T, as they were in y.
  __device__ __forceinline__ Floats<N> gradient(const Floats<N>& means, const Floats<N>& scales,
                                                const Floats<N>& shifts) const {
    Floats<N> g = floats(dy), more = {}, of_mask = {};
    if constexpr (Sum) more = floats(more_dy);
    if constexpr (M == Mask::from_y) of_mask = floats(y);
    if constexpr (M == Mask::again) of_mask = floats(x);
    for (int i = 0; i < N; ++i) {
      if constexpr (Sum) g.at[i] = to_float(from_float<T>(g.at[i] + more.at[i]));
      if constexpr (M == Mask::from_y)
        if (of_mask.at[i] <= 0) g.at[i] = 0;
      if constexpr (M == Mask::bits)
        if ((bits >> i & 1) == 0) g.at[i] = 0;
      if constexpr (M == Mask::again)
        if (to_float(from_float<T>(normalised(of_mask.at[i], means.at[i], scales.at[i], shifts.at[i]))) <= 0)
          g.at[i] = 0;
    }
    return g;
  }
};

/// Makes everything of a channel, and the factors of dx, from the parts' sums.
struct GradientMerge {
  double eps;
  const float *w, *mean, *var;
  float *dw, *db, *batch_mean, *batch_var;
  Scratch scratch;

  __device__ __forceinline__ double origin(const Partition&, const Range&, int) const { return 0; }
  __device__ __forceinline__ void add(double, double, double a, double b, double (&sums)[2]) const {
    sums[0] += a;
    sums[1] += b;
  }
  __device__ __forceinline__ void combine(double, double, double (&)[2]) const {}
  __device__ __forceinline__ void finish(const Partition& p, int channel, const double (&sums)[2]) const {
    const auto rows = static_cast<double>(p.rows);
    const float of_w = w[channel], of_mean = mean[channel], of_var = var[channel];
    const double per_sigma = 1 / sqrt(of_var + eps);
    const double sum = sums[0], slope = sums[1] * per_sigma, scale = of_w * per_sigma;
    db[channel] = static_cast<float>(sum);
    dw[channel] = static_cast<float>(slope);
    batch_mean[channel] = of_mean;
    batch_var[channel] = static_cast<float>(of_var * (rows / max(1.0, rows - 1)));
    scratch.scale[channel] = static_cast<float>(scale);
    scratch.slope[channel] = static_cast<float>(-scale * per_sigma * slope / rows);
    scratch.offset[channel] = static_cast<float>(-scale * sum / rows);
    scratch.forward_scale[channel] = scale_of(of_w, of_var, eps);
  }
};

/// A part's sums of g and of g (x - mean). Shared memory: after that of the sums, with Mask::again, the result's scale
/// of each of the block's channels. The last blocks also merge the parts.
template <class T, int N, bool Aligned, Mask M, bool Sum>
__global__ void __launch_bounds__(kThreads, kResident<Aligned>)
    gradient_sums_of_parts(Partition p, const T* x, MaskSource<T> mask, const T* dy, const T* more_dy, const float* b,
                           T* dresidual, GradientMerge merge, unsigned* tickets) {
  const Work w = work(p);
  float sums[2 * N] = {};
  const int threads = blockDim.x * blockDim.y;
  float* shared_scales = shared_memory<float>(sizeof(sums) * threads);
  if constexpr (M == Mask::again) {
    const int first = w.channel - static_cast<int>(threadIdx.x) * N;
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < p.columns * N; i += threads)
      if (first + i < p.channels) shared_scales[i] = scale_of(merge.w[first + i], merge.var[first + i], merge.eps);
    __syncthreads();
  }
  if (w.any) {
    using Row = GradientRow<T, N, Aligned, M, Sum>;
    const auto of_row = [&](int64_t at) { return Row::at(x, mask, dy, more_dy, at); };
    const auto means = factors<N, Aligned>(merge.mean + w.channel);
    Floats<N> scales = {}, shifts = {};
    if constexpr (M == Mask::again) {
      scales = factors<N, Aligned>(shared_scales + threadIdx.x * N);
      shifts = factors<N, Aligned>(b + w.channel);
    }
    constexpr int kPacks = 2 + (M == Mask::from_y) + Sum;  // of a row: more rows have no place in registers
    for_rows<kPacks == 2 ? 3 : 2>(p, w, of_row, [&](int64_t at, const Row& row) {
      const Floats<N> g = row.gradient(means, scales, shifts), v = floats(row.x);
      if (M != Mask::again && dresidual != nullptr) store<N, Aligned>(g, dresidual + at);
      for (int i = 0; i < N; ++i) {
        sums[i] += g.at[i];
        sums[N + i] = __fmaf_rn(g.at[i], v.at[i] - means.at[i], sums[N + i]);
      }
    });
  }
  sum_over_lanes(sums);
  if (threadIdx.y == 0 && w.any) {
    double* out = merge.scratch.parts + int64_t{w.part} * 2 * p.channels + w.channel;
    for (int i = 0; i < N; ++i) {
      out[i] = sums[i];
      out[p.channels + i] = sums[N + i];
    }
  }
  merge_by_last_blocks(p, merge, tickets);
}

template <class T, int N, bool Aligned, Mask M>
__global__ void __launch_bounds__(kThreads, kResident<Aligned>)
    gradient_of_x(Partition p, const T* __restrict__ x, MaskSource<T> mask, const T* __restrict__ dy,
                  const float* __restrict__ mean, const float* __restrict__ b, Scratch scratch, T* __restrict__ dx) {
  const Work w = work_backwards(p);
  if (!w.any) return;
  using Row = GradientRow<T, N, Aligned, M>;
  const auto of_row = [&](int64_t at) { return Row::at(x, mask, dy, nullptr, at); };
  const auto of_channels = [&](const float* from) { return factors<N, Aligned>(from + w.channel); };
  const auto means = of_channels(mean), scales = of_channels(scratch.scale), slopes = of_channels(scratch.slope),
             offsets = of_channels(scratch.offset);
  Floats<N> forward_scales = {}, shifts = {};
  if constexpr (M == Mask::again) forward_scales = of_channels(scratch.forward_scale), shifts = of_channels(b);
  for_rows<2>(p, w, of_row, [&](int64_t at, const Row& row) {
    const Floats<N> g = row.gradient(means, forward_scales, shifts);
    Floats<N> v = floats(row.x);
    for (int i = 0; i < N; ++i) {
      const float straight = __fmaf_rn(v.at[i] - means.at[i], slopes.at[i], offsets.at[i]);
      v.at[i] = __fmaf_rn(g.at[i], scales.at[i], straight);
    }
    store<N, Aligned>(v, dx + at);
  });
}

/// Both gradients, with statistics that are given.
template <class T, int N, bool Aligned, bool Rectify>
__global__ void __launch_bounds__(kThreads, kResident<Aligned>)
    gradient_by_given(Partition p, const T* __restrict__ y, const T* __restrict__ dy, const float* __restrict__ scale,
                      T* __restrict__ dresidual, T* __restrict__ dx) {
  const Work w = work_backwards(p);
  if (!w.any) return;
  struct Row {
    Elements<T, N> y, dy;
  };
  const auto of_row = [&](int64_t at) {
    Row row;
    if constexpr (Rectify) row.y = load<N, Aligned>(y + at);
    row.dy = load<N, Aligned>(dy + at);
    return row;
  };
  const auto scales = factors<N, Aligned>(scale + w.channel);
  for_rows<Rectify ? 2 : 4>(p, w, of_row, [&](int64_t at, const Row& row) {
    Floats<N> g = floats(row.dy), y = {};
    if constexpr (Rectify) y = floats(row.y);
    for (int i = 0; i < N; ++i)
      if constexpr (Rectify)
        if (y.at[i] <= 0) g.at[i] = 0;
    if (dresidual != nullptr) store<N, Aligned>(g, dresidual + at);
    for (int i = 0; i < N; ++i) g.at[i] *= scales.at[i];
    store<N, Aligned>(g, dx + at);
  });
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

size_t sums_bytes(const Partition& p, int n) { return size_t{2} * n * p.columns * p.lanes * sizeof(float); }

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

bool valid(const BatchNormShape& s) { return s.rows > 0 && s.channels > 0; }
bool may_have_mask(const BatchNormShape& s) { return s.type != Type::f32 && s.channels % 8 == 0; }

/// What is read of the ReLU alone.
template <Mask M, class T>
MaskSource<T> mask_source(const void* y, const uint8_t* bits) {
  return {M == Mask::from_y ? static_cast<const T*>(y) : nullptr, M == Mask::bits ? bits : nullptr};
}

/// call(std::integral_constant of a mask); y null: no ReLU, b null: not without y. N elements are an access.
template <int N, class Call>
cudaError_t with_mask(const void* y, const uint8_t* bits, const float* b, Call call) {
  if (y == nullptr) return call(std::integral_constant<Mask, Mask::none>());
  if constexpr (N == 8)
    if (bits != nullptr) return call(std::integral_constant<Mask, Mask::bits>());
  if (b == nullptr) return call(std::integral_constant<Mask, Mask::from_y>());
  return call(std::integral_constant<Mask, Mask::again>());
}

cudaError_t launch_given_statistics(const BatchNormShape& shape, double eps, const float* w, const float* var,
                                    float* scale, cudaStream_t stream) {
  const Grid grid{dim3(static_cast<unsigned>(divide_up<int64_t>(shape.channels, kThreads))), dim3(kThreads)};
  return launch(given_statistics, grid, stream, shape.channels, eps, w, var, scale);
}

cudaError_t launch_result(const BatchNormArgs& a, const Partition& parts, const float* scale, cudaStream_t stream) {
  const Partition p = partition_of_result(parts);
  return with_access(
      a.shape,
      [&]<class T, int N, bool Aligned>(T, std::integral_constant<int, N>, std::bool_constant<Aligned>) {
        auto kernel = a.residual != nullptr ? result<T, N, Aligned, true, false> : result<T, N, Aligned, false, false>;
        if constexpr (N == 8)
          if (a.mask != nullptr) kernel = result<T, N, Aligned, true, true>;
        return launch(kernel, grid_of_result(p), stream, p, a.relu, static_cast<const T*>(a.x),
                      static_cast<const T*>(a.residual), a.mean, scale, a.b, static_cast<T*>(a.y), a.mask);
      },
      a.x, a.residual, a.y, a.mean, scale, a.b);
}

}  // namespace

cudaError_t batch_norm(const BatchNormArgs& a, cudaStream_t stream) {
  if (!valid(a.shape) || a.tickets == nullptr) return cudaErrorInvalidValue;
  if (a.mask != nullptr && !(a.relu && a.residual != nullptr && may_have_mask(a.shape))) return cudaErrorInvalidValue;
  const Partition p = partition(a.shape, kStatisticsBlocks);
  const Scratch s = scratch(p, a.workspace);
  const cudaError_t error = with_access(
      a.shape,
      [&]<class T, int N, bool Aligned>(T, std::integral_constant<int, N>, std::bool_constant<Aligned>) {
        const StatisticsMerge merge{a.eps, a.w, s, a.mean, a.var};
        return launch_parts(statistics_of_parts<T, N, Aligned>, p, sums_bytes(p, N), stream, merge, a.tickets,
                            static_cast<const T*>(a.x));
      },
      a.x);
  return error == cudaSuccess ? launch_result(a, p, s.scale, stream) : error;
}

cudaError_t batch_norm_result(const BatchNormArgs& a, cudaStream_t stream) {
  if (!valid(a.shape)) return cudaErrorInvalidValue;
  const Partition p = partition(a.shape, kStatisticsBlocks);
  const Scratch s = scratch(p, a.workspace);
  const cudaError_t error = launch_given_statistics(a.shape, a.eps, a.w, a.var, s.scale, stream);
  return error == cudaSuccess ? launch_result(a, p, s.scale, stream) : error;
}

static cudaError_t gradient_by_given_statistics(const BatchNormGradArgs& a, const Partition& parts, const Scratch& s,
                                                cudaStream_t stream) {
  const cudaError_t error = launch_given_statistics(a.shape, a.eps, a.w, a.var, s.scale, stream);
  if (error != cudaSuccess) return error;
  const Partition p = partition_of_result(parts);
  return with_access(
      a.shape,
      [&]<class T, int N, bool Aligned>(T, std::integral_constant<int, N>, std::bool_constant<Aligned>) {
        const auto kernel =
            a.y != nullptr ? gradient_by_given<T, N, Aligned, true> : gradient_by_given<T, N, Aligned, false>;
        return launch(kernel, grid_of_result(p), stream, p, static_cast<const T*>(a.y), static_cast<const T*>(a.dy),
                      s.scale, static_cast<T*>(a.dresidual), static_cast<T*>(a.dx));
      },
      a.y, a.dy, a.dresidual, a.dx, s.scale);
}

cudaError_t batch_norm_grad(const BatchNormGradArgs& a, cudaStream_t stream) {
  if (!valid(a.shape)) return cudaErrorInvalidValue;
  if (a.more_dy != nullptr && (a.y == nullptr || a.dresidual == nullptr || a.dw == nullptr))
    return cudaErrorInvalidValue;
  if (a.mask != nullptr && (a.y == nullptr || !may_have_mask(a.shape))) return cudaErrorInvalidValue;
  const Partition p = partition(a.shape, kGradientBlocks);
  const Scratch s = scratch(p, a.workspace);
  if (a.dw == nullptr) return gradient_by_given_statistics(a, p, s, stream);
  if (a.tickets == nullptr) return cudaErrorInvalidValue;
  const GradientMerge merge{a.eps, a.w, a.mean, a.var, a.dw, a.db, a.batch_mean, a.batch_var, s};
  const cudaError_t error = with_access(
      a.shape,
      [&]<class T, int N, bool Aligned>(T, std::integral_constant<int, N>, std::bool_constant<Aligned>) {
        const float* const b = a.dresidual == nullptr ? a.b : nullptr;
        return with_mask<N>(a.y, a.mask, b, [&]<Mask M>(std::integral_constant<Mask, M>) {
          const size_t scales = M == Mask::again ? N * p.columns * sizeof(float) : 0;
          const auto start = [&]<bool Sum>(std::bool_constant<Sum>) {
            return launch_parts(gradient_sums_of_parts<T, N, Aligned, M, Sum>, p, sums_bytes(p, N) + scales, stream,
                                merge, a.tickets, static_cast<const T*>(a.x), mask_source<M, T>(a.y, a.mask),
                                static_cast<const T*>(a.dy), static_cast<const T*>(a.more_dy), b,
                                static_cast<T*>(a.dresidual));
          };
          if constexpr (M == Mask::from_y || M == Mask::bits)
            if (a.more_dy != nullptr) return start(std::true_type());
          return start(std::false_type());
        });
      },
      a.x, a.y, a.dy, a.more_dy, a.dresidual, a.mean, a.b);
  if (error != cudaSuccess) return error;
  const void* y = a.dresidual == nullptr ? a.y : nullptr;  // dresidual is dy with the ReLU already in it
  const void* dy = a.dresidual == nullptr ? a.dy : a.dresidual;
  const Partition last = partition_of_result(p);
  return with_access(
      a.shape,
      [&]<class T, int N, bool Aligned>(T, std::integral_constant<int, N>, std::bool_constant<Aligned>) {
        return with_mask<N>(y, a.mask, a.b, [&]<Mask M>(std::integral_constant<Mask, M>) {
          return launch(gradient_of_x<T, N, Aligned, M>, grid_of_result(last), stream, last, static_cast<const T*>(a.x),
                        mask_source<M, T>(y, a.mask), static_cast<const T*>(dy), a.mean, a.b, s, static_cast<T*>(a.dx));
        });
      },
      a.x, y, dy, a.dx, a.mean, a.b, a.workspace);
}

size_t batch_norm_workspace(const BatchNormShape& shape) {
  if (!valid(shape)) return 0;
  const int64_t parts = std::max(partition(shape, kStatisticsBlocks).parts, partition(shape, kGradientBlocks).parts);
  return static_cast<size_t>(shape.channels) *
         (static_cast<size_t>(parts) * 2 * sizeof(double) + kFactors * sizeof(float));
}

}  // namespace ct::kernels
