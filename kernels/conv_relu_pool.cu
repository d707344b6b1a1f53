#include <algorithm>
#include <limits>

#include "conv_relu_pool.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;                 // of a block, at most
constexpr int kLeastThreads = 128;            // those without sums of their own help to stage
constexpr int kMostFloats = 48 * 1024 / 4;    // of shared memory
constexpr int kGoodFloats = kMostFloats / 2;  // so that several blocks share an SM
constexpr int64_t kSpread = 64;               // blocks to be reached before a block gets more channels
constexpr int64_t kPlenty = 512;              // ... more rows, or a sum over images fewer parts

/// n cut into equal pieces of at most `most`.
template <class N>
constexpr N balanced(N n, N most) {
  return n == 0 ? N{1} : divide_up(n, divide_up(n, most));
}
constexpr int even(int n) { return (n + 1) / 2 * 2; }
constexpr int whole_packs(int floats) { return (floats + 3) / 4 * 4; }

/// n / by with a product, exact while n * by < 2^32.
struct Divisor {
  uint32_t by;
  uint64_t inverse;
  explicit Divisor(int by = 1)
      : by(static_cast<uint32_t>(by)), inverse(((uint64_t{1} << 32) + this->by - 1) / this->by) {}
};
struct Quotient {
  int whole, rest;
};
__device__ __forceinline__ Quotient divide(int n, const Divisor& d) {
  const auto whole = static_cast<uint32_t>((static_cast<uint32_t>(n) * d.inverse) >> 32);
  return {static_cast<int>(whole), static_cast<int>(static_cast<uint32_t>(n) - whole * d.by)};
}

// ---- staging: boxes of a tensor become floats in shared memory

/// rows x columns x channels of a tensor, taken in the order of memory: by channel, row, column where columns are
/// contiguous (planar), else by row, column, channel. Weights are rows of out channels, columns of taps.
struct Box {
  int rows, columns, channels;
  int64_t row_stride, column_stride, channel_stride;  // elements of the tensor
  int to_row, to_column, to_channel, to_tile;         // floats of shared memory
  bool planar, wide;                                  // wide: 4 elements an access
  Divisor per_tile, per_outer, per_inner;

  void set_order() {
    const int outer = planar ? rows * columns : columns * channels;
    per_tile = Divisor(rows * columns * channels);
    per_outer = Divisor(outer);
    per_inner = Divisor(planar ? columns : channels);
  }
};

/// May boxes of the tensor be taken 4 elements at a time? tile_stride: between images; whole_rows: all columns at once.
bool takes_packs(const Box& b, Type type, const void* tensor, int64_t tile_stride, bool whole_rows) {
  const size_t pack = type == Type::f32 ? 16 : 8;
  if (reinterpret_cast<uintptr_t>(tensor) % pack != 0 || tile_stride % 4 != 0 || b.row_stride % 4 != 0) return false;
  if (b.planar) return whole_rows && b.columns % 4 == 0 && b.channel_stride % 4 == 0;
  if (b.channels % 4 == 0 && b.column_stride % 4 == 0) return true;
  return whole_rows && b.column_stride == b.channels && b.columns * b.channels % 4 == 0;
}

/// Where a box begins, and what of it lies inside the tensor.
template <class T>
struct Corner {
  const T* at;
  int rows, columns, channels;
};

/// Boxes corner(0), ..., corner(tiles - 1), one after the other at `to`; what lies outside is left as it is. N elements
/// an access; several loads of a thread are on their way at a time, so what is not to be loaded reads tensor[0].
template <int N, class T, class CornerOf>
__device__ __forceinline__ void stage_packs(const Box& box, int tiles, const T* tensor, CornerOf corner, float* to) {
  constexpr int kAtOnce = N == 1 ? 8 : 4;
  const int threads = static_cast<int>(blockDim.x), n = tiles * static_cast<int>(box.per_tile.by);
  for (int first = static_cast<int>(threadIdx.x) * N; first < n; first += kAtOnce * threads * N) {
    Pack<T, N> packs[kAtOnce];
    int base[kAtOnce], inner[kAtOnce];
    bool inside[kAtOnce];
#pragma unroll
    for (int m = 0; m < kAtOnce; ++m) {
      const int e = first + m * threads * N;
      const Quotient tile = divide(e < n ? e : 0, box.per_tile);
      const Quotient outer = divide(tile.rest, box.per_outer), middle = divide(outer.rest, box.per_inner);
      const int row = box.planar ? middle.whole : outer.whole, column = box.planar ? middle.rest : middle.whole,
                channel = box.planar ? outer.whole : middle.rest;
      const Corner<T> c = corner(tile.whole);
      inside[m] = e < n && row < c.rows && column < c.columns && channel < c.channels;
      const T* from = c.at + row * box.row_stride + column * box.column_stride + channel * box.channel_stride;
      packs[m] = *reinterpret_cast<const Pack<T, N>*>(inside[m] ? from : tensor);
      base[m] = tile.whole * box.to_tile + row * box.to_row + column * box.to_column + channel * box.to_channel;
      inner[m] = middle.rest;
    }
#pragma unroll
    for (int m = 0; m < kAtOnce; ++m) {
      if (!inside[m]) continue;
      const int step = box.planar ? box.to_column : box.to_channel;
      const int wrap = (box.planar ? box.to_row : box.to_column) - static_cast<int>(box.per_inner.by) * step;
      int at = base[m], place = inner[m];
#pragma unroll
      for (int k = 0; k < N; ++k) {
        to[at] = to_float(packs[m].at[k]);
        at += step;
        if (++place == static_cast<int>(box.per_inner.by)) {
          place = 0;
          at += wrap;
        }
      }
    }
  }
}
template <class T, class CornerOf>
__device__ __forceinline__ void stage(const Box& box, int tiles, const T* tensor, CornerOf corner, float* to) {
  if (box.wide)
    stage_packs<4>(box, tiles, tensor, corner, to);
  else
    stage_packs<1>(box, tiles, tensor, corner, to);
}

/// A box of x: its rows and columns from a corner on.
Box image_box(const ConvReluPoolShape& s, int rows, int columns, int channels) {
  Box b;
  b.rows = rows;
  b.columns = columns;
  b.channels = channels;
  b.row_stride = s.planar ? s.width : s.width * s.in_channels;
  b.column_stride = s.planar ? 1 : s.in_channels;
  b.channel_stride = s.planar ? s.height * s.width : 1;
  b.planar = s.planar;
  b.set_order();
  return b;
}
Box weights_box(const ConvReluPoolShape& s, int outs, int ins) {
  Box b;
  b.rows = outs;
  b.columns = s.kernel * s.kernel;
  b.channels = ins;
  b.row_stride = s.kernel * s.kernel * s.in_channels;
  b.column_stride = s.in_channels;
  b.channel_stride = 1;
  b.planar = false;
  b.to_tile = 0;
  b.set_order();
  return b;
}

/// An output of ReLU that carries gradient, and where it goes; at < 0: none.
struct alignas(8) Record {
  float dy;
  int at;
};

/// The sum over s of from[s * step], in order.
__device__ __forceinline__ float sum_of_slices(const float* from, int slices, int step, float sum) {
#pragma unroll 4
  for (int s = 0; s < slices; ++s) sum += from[s * step];
  return sum;
}

// ---- forward: a thread has a window, kChannels output channels and a slice of the input channels

struct ForwardPlan {
  int vector, rows, columns, groups;  // output channels a thread; of a block: windows, threads side by side in channels
  int slices, chunk;                  // chunk: input channels that are staged at a time
  int row_tiles, column_tiles, channel_tiles;
  int pitch, plane;
  Box x, w;
  int threads() const { return rows * columns * groups * slices; }
  int outs() const { return groups * vector; }
  int64_t blocks(int64_t n) const { return n * row_tiles * column_tiles * channel_tiles; }
};

ForwardPlan forward_plan(const ConvReluPoolArgs& a) {
  const ConvReluPoolShape& s = a.shape;
  const int k = s.kernel, taps = k * k, ph = static_cast<int>(s.pooled_height()),
            pw = static_cast<int>(s.pooled_width()), out = static_cast<int>(s.out_channels),
            in = static_cast<int>(s.in_channels);
  ForwardPlan p;
  p.slices = std::min(in, 8);
  p.vector = out >= 4 && s.n * ph * pw * divide_up(out, 4) * p.slices >= 65536 ? 4 : 1;
  const auto set = [&](int rows, int columns, int groups) {
    p.rows = rows;
    p.columns = columns;
    p.groups = groups;
    p.row_tiles = divide_up(ph, rows);
    p.column_tiles = divide_up(pw, columns);
    p.channel_tiles = divide_up(out, p.outs());
    p.pitch = even(2 * columns + k - 1);
    p.plane = whole_packs((2 * rows + k - 1) * p.pitch);
    return p.threads() <= kThreads && p.slices * (p.plane + taps * p.outs()) <= kMostFloats;
  };
  int columns = balanced(pw, 16);
  while (!set(1, columns, 1)) columns = divide_up(columns, 2);
  const int groups = divide_up(out, p.vector);
  for (int tiles = 1; tiles <= groups; ++tiles)
    if ((set(1, columns, divide_up(groups, tiles)) && p.blocks(s.n) >= kSpread) || tiles == groups) break;
  const int fixed_groups = p.groups;
  for (int tiles = 1; tiles <= ph; ++tiles)
    if ((set(divide_up(ph, tiles), columns, fixed_groups) && p.blocks(s.n) >= kPlenty) || tiles == ph) break;
  const int of_slices = p.slices * (p.plane + taps * p.outs());
  p.chunk = std::min(p.slices * std::max(1, kGoodFloats / of_slices), divide_up(in, p.slices) * p.slices);
  if (p.chunk > in) p.chunk = in;  // a single chunk
  p.x = image_box(s, 2 * p.rows + k - 1, 2 * p.columns + k - 1, p.chunk);
  p.x.to_row = p.pitch;
  p.x.to_column = 1;
  p.x.to_channel = p.plane;
  p.x.to_tile = 0;
  p.x.wide = takes_packs(p.x, s.type, a.x, s.in_channels * s.height * s.width, p.x.columns == s.width);
  p.w = weights_box(s, p.outs(), p.chunk);
  p.w.to_row = 1;
  p.w.to_column = p.outs();
  p.w.to_channel = taps * p.outs();
  p.w.wide = takes_packs(p.w, s.type, a.w, 0, true);
  return p;
}

/// One input channel's part of the window's four sums, of V output channels each; w [tap][outs]. K 0: any kernel.
template <int K, int V>
__device__ __forceinline__ void add_taps(const float* x, int pitch, const float* w, int outs, int kernel,
                                         float (&sums)[4][V]) {
  if constexpr (K == 0) {
    for (int ky = 0; ky < kernel; ++ky)
      for (int kx = 0; kx < kernel; ++kx, w += outs) {
        float weights[V];
        load_floats(w, weights);
        for (int place = 0; place < 4; ++place) {
          const float value = x[(ky + place / 2) * pitch + kx + place % 2];
          for (int v = 0; v < V; ++v) sums[place][v] = __fmaf_rn(value, weights[v], sums[place][v]);
        }
      }
  } else {
    float weights[2][K][V];  // of the kernel's rows ky and ky - 1, which meet row ky of x in the window's two rows
#pragma unroll
    for (int row = 0; row <= K; ++row) {
      float values[K + 1];
#pragma unroll
      for (int c = 0; c <= K; c += 2) {
        const auto pair = *reinterpret_cast<const Pack<float, 2>*>(x + row * pitch + c);
        values[c] = pair.at[0];
        values[c + 1] = pair.at[1];
      }
#pragma unroll
      for (int kx = 0; kx < K; ++kx) {
        if (row < K) load_floats(w + (row * K + kx) * outs, weights[row % 2][kx]);
#pragma unroll
        for (int place = 0; place < 4; ++place) {
          const int ky = row - place / 2;
          if (ky < 0 || ky >= K) continue;
#pragma unroll
          for (int v = 0; v < V; ++v)
            sums[place][v] = __fmaf_rn(values[kx + place % 2], weights[ky % 2][kx][v], sums[place][v]);
        }
      }
    }
  }
}

template <class T, int K, int V>
__global__ void __launch_bounds__(kThreads, 2) forward(ConvReluPoolArgs a, ForwardPlan p) {
  wait_for_previous();
  const ConvReluPoolShape& s = a.shape;
  const int kernel = K == 0 ? s.kernel : K, taps = kernel * kernel, outs = p.groups * V, in = s.in_channels;
  const int ph = s.pooled_height(), pw = s.pooled_width();
  int block = blockIdx.x;
  const int out0 = block % p.channel_tiles * outs;
  block /= p.channel_tiles;
  const int px0 = block % p.column_tiles * p.columns;
  block /= p.column_tiles;
  const int py0 = block % p.row_tiles * p.rows;
  const int64_t image = block / p.row_tiles;

  const int t = threadIdx.x, windows = p.rows * p.columns, items = windows * p.groups;
  const int slice = t / items, item = t % items, group = item / windows, window = item % windows;
  const int row = window / p.columns, column = window % p.columns;
  const bool active = slice < p.slices && py0 + row < ph && px0 + column < pw;

  auto* xs = shared_memory<float>();
  float* ws = xs + p.chunk * p.plane;
  const auto* x = static_cast<const T*>(a.x);
  const auto* w = static_cast<const T*>(a.w);
  const T* corner = x + image * in * s.height * s.width + 2 * py0 * p.x.row_stride + 2 * px0 * p.x.column_stride;
  const int rows = s.height - 2 * py0, columns = s.width - 2 * px0;

  float sums[4][V] = {};
  for (int in0 = 0; in0 < in; in0 += p.chunk) {
    if (in0 > 0) __syncthreads();
    const int ins = min(p.chunk, in - in0);
    stage(
        p.x, 1, x,
        [&](int) {
          return Corner<T>{corner + in0 * p.x.channel_stride, rows, columns, ins};
        },
        xs);
    stage(
        p.w, 1, w,
        [&](int) {
          return Corner<T>{w + out0 * p.w.row_stride + in0, static_cast<int>(s.out_channels) - out0, taps, ins};
        },
        ws);
    __syncthreads();
    if (active)
      for (int i = slice; i < ins; i += p.slices)
        add_taps<K, V>(xs + i * p.plane + 2 * row * p.pitch + 2 * column, p.pitch, ws + i * taps * outs + group * V,
                       outs, kernel, sums);
  }
  __syncthreads();  // what was staged makes room for the slices' sums: [place][v][slice][item]
  const int step = items * p.slices;
  if (slice < p.slices)
    for (int i = 0; i < 4 * V; ++i) xs[i * step + t] = sums[i / V][i % V];
  __syncthreads();

  for (int j = t; j < windows * outs; j += static_cast<int>(blockDim.x)) {
    const int at = j / outs, channel = j % outs, o = out0 + channel;
    const int py = py0 + at / p.columns, px = px0 + at % p.columns;
    if (o >= s.out_channels || py >= ph || px >= pw) continue;
    float best = 0;
    int first = 0;
    for (int place = 0; place < 4; ++place) {
      const float* parts = xs + (place * V + channel % V) * step + channel / V * windows + at;
      const float sum = sum_of_slices(parts, p.slices, items, a.b[o]);
      if (place == 0 || sum > best) {
        best = sum;
        first = place;
      }
    }
    const int64_t to = ((image * ph + py) * pw + px) * s.out_channels + o;
    static_cast<T*>(a.y)[to] = from_float<T>(best <= 0 ? 0 : best);
    a.argmax[to] = static_cast<uint8_t>(best <= 0 ? 4 : first);
  }
}

// ---- weight gradient: a thread has a place (o, kx, i) in `kernel_rows` rows of the weights and a slice of the windows

struct GradWPlan {
  int kernel_rows;    // of a thread and block: all (the kernel is 3 or 5), or one
  int rows, columns;  // windows of a tile
  int row_tiles, column_tiles;
  int tiles, at_once;        // in all; staged at a time
  int parts, tiles_of_part;  // of the sum
  int outs, ins;             // channels of a block
  int out_tiles, in_tiles, kernel_tiles;
  int slices, pitch;
  Box x;
  Divisor per_out, per_window, per_column;
  int windows() const { return rows * columns; }
  int places(int kernel) const { return outs * kernel * ins; }
  int64_t outputs() const { return int64_t{out_tiles} * in_tiles * kernel_tiles; }
  int tile_floats() const { return whole_packs(x.rows * pitch) + 2 * outs * windows(); }
};

/// Sets tiles for block sizes as given: as many at a time as `most_floats` hold, or a single one.
void set_tiles(const ConvReluPoolShape& s, int most_floats, GradWPlan& p) {
  const int k = s.kernel;
  p.rows = std::max(1, static_cast<int>(std::min<int64_t>(s.pooled_height(), 4096)));
  p.columns = std::max(1, static_cast<int>(std::min<int64_t>(s.pooled_width(), 4096)));
  p.out_tiles = static_cast<int>(divide_up<int64_t>(s.out_channels, p.outs));
  p.in_tiles = static_cast<int>(divide_up<int64_t>(s.in_channels, p.ins));
  p.kernel_tiles = k / p.kernel_rows;
  const auto floats = [&] {
    const int64_t columns = 2 * p.columns + k - 1, rows = 2 * p.rows + p.kernel_rows - 1;
    return (rows * columns * p.ins + 3) / 4 * 4 + int64_t{2} * p.outs * p.rows * p.columns;
  };
  while (floats() > kMostFloats && p.rows > 4) p.rows = divide_up(p.rows, 2);
  while (floats() > kMostFloats && p.columns > 1) p.columns = divide_up(p.columns, 2);
  while (floats() > kMostFloats && p.rows > 1) p.rows = divide_up(p.rows, 2);
  p.row_tiles = static_cast<int>(divide_up<int64_t>(s.pooled_height(), p.rows));
  p.column_tiles = static_cast<int>(divide_up<int64_t>(s.pooled_width(), p.columns));
  p.tiles = static_cast<int>(s.n * p.row_tiles * p.column_tiles);
  p.at_once = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(most_floats / floats(), p.tiles)));
  p.slices = std::min(kThreads / p.places(k), std::max(1, p.at_once * p.windows()));
}

GradWPlan grad_weights_plan(const ConvReluPoolShape& s) {
  const int k = s.kernel, in = static_cast<int>(s.in_channels), out = static_cast<int>(s.out_channels);
  GradWPlan p;
  // Few images: blocks share out the weights, and each adds up all windows.
  p.kernel_rows = p.outs = 1;
  p.ins = balanced(in, kThreads / k);
  for (int tiles = divide_up(in, p.ins); p.ins > 1 && int64_t{out} * k * tiles < kSpread; ++tiles)
    p.ins = divide_up(in, tiles + 1);
  set_tiles(s, kMostFloats, p);
  p.parts = 1;
  if (p.tiles > 3 * p.at_once) {
    // Many: blocks share out the windows.
    p.kernel_rows = k == 3 || k == 5 ? k : 1;
    p.ins = balanced(in, 32);
    while (p.ins * k > kThreads) p.ins = divide_up(p.ins, 2);
    p.outs = balanced(out, kThreads / (p.ins * k));
    set_tiles(s, kGoodFloats, p);
    p.at_once = static_cast<int>(std::clamp<int64_t>(p.tiles * p.outputs() / (2 * kSpread), 1, p.at_once));
    const int rounds = divide_up(p.tiles, p.at_once);
    const auto wanted = static_cast<int>(std::min<int64_t>(rounds, std::max<int64_t>(1, kPlenty / p.outputs())));
    const int rounds_of_part = divide_up(rounds, wanted);
    p.tiles_of_part = rounds_of_part * p.at_once;
    p.parts = divide_up(p.tiles, p.tiles_of_part);
  } else {
    p.tiles_of_part = p.tiles;
  }
  p.x = image_box(s, 2 * p.rows + p.kernel_rows - 1, 2 * p.columns + k - 1, p.ins);
  p.pitch = p.x.columns * p.ins;
  p.x.to_row = p.pitch;
  p.x.to_column = p.ins;
  p.x.to_channel = 1;
  p.x.to_tile = whole_packs(p.x.rows * p.pitch);
  p.x.wide = false;
  p.per_out = Divisor(p.outs);
  p.per_window = Divisor(p.windows());
  p.per_column = Divisor(p.columns);
  return p;
}

GradWPlan grad_weights_plan(const ConvReluPoolGradWArgs& a) {
  const ConvReluPoolShape& s = a.shape;
  GradWPlan p = grad_weights_plan(s);
  p.x.wide = takes_packs(p.x, s.type, a.x, s.in_channels * s.height * s.width, p.x.columns == s.width);
  return p;
}

/// The block's sums over slices come to slice 0, by a tree. Shared memory: N floats per thread. All threads call it.
template <int N>
__device__ __forceinline__ void sum_over_slices(float (&own)[N], int places, int slices) {
  auto* all = shared_memory<float>();
  const int t = threadIdx.x, step = places * slices;
  if (t < step)
    for (int i = 0; i < N; ++i) all[i * step + t] = own[i];
  __syncthreads();
  for (int left = slices; left > 1;) {
    const int half = (left + 1) / 2;
    if (t < (left - half) * places)
      for (int i = 0; i < N; ++i) all[i * step + t] = own[i] += all[i * step + t + half * places];
    __syncthreads();
    left = half;
  }
}

/// Block number `block`. R: p.kernel_rows.
template <class T, int R>
__device__ __forceinline__ void add_windows(const ConvReluPoolGradWArgs& a, const GradWPlan& p, int block) {
  const ConvReluPoolShape& s = a.shape;
  const int k = s.kernel, in = s.in_channels, out = s.out_channels, ph = s.pooled_height(), pw = s.pooled_width();
  const int ky = block % p.kernel_tiles * R;
  block /= p.kernel_tiles;
  const int in0 = block % p.in_tiles * p.ins;
  block /= p.in_tiles;
  const int out0 = block % p.out_tiles * p.outs;
  const int part = block / p.out_tiles;

  const int t = threadIdx.x, run = k * p.ins, places = p.outs * run;
  const int slice = t / places, place = t % places, channel = place / run, offset = place % run;
  const int windows = p.rows * p.columns;

  auto* xs = shared_memory<float>();
  auto* records = reinterpret_cast<Record*>(xs + p.at_once * p.x.to_tile);  // [tile][window][outs]
  const auto* x = static_cast<const T*>(a.x);
  const auto* dy = static_cast<const T*>(a.dy);
  struct Tile {
    int64_t image;
    int py, px;
  };
  const auto tile_at = [&](int tile) {
    return Tile{tile / p.column_tiles / p.row_tiles, tile / p.column_tiles % p.row_tiles * p.rows,
                tile % p.column_tiles * p.columns};
  };

  float sums[R + 1] = {};  // the last: of the bias
  const int end = min(p.tiles, (part + 1) * p.tiles_of_part);
  for (int tile0 = part * p.tiles_of_part; tile0 < end; tile0 += p.at_once) {
    const int tiles = min(p.at_once, end - tile0);
    stage(
        p.x, tiles, x,
        [&](int i) {
          const Tile at = tile_at(tile0 + i);
          const int row = 2 * at.py + ky, column = 2 * at.px;
          return Corner<T>{x + at.image * in * s.height * s.width + row * p.x.row_stride + column * p.x.column_stride +
                               in0 * p.x.channel_stride,
                           static_cast<int>(s.height) - row, static_cast<int>(s.width) - column, in - in0};
        },
        xs);
    const int n = tiles * windows * p.outs;
#pragma unroll 4
    for (int e = t; e < n; e += static_cast<int>(blockDim.x)) {
      const Quotient by_out = divide(e, p.per_out), tile = divide(by_out.whole, p.per_window),
                     window = divide(tile.rest, p.per_column);
      const Tile at = tile_at(tile0 + tile.whole);
      const int py = at.py + window.whole, px = at.px + window.rest, o = out0 + by_out.rest;
      const bool inside = py < ph && px < pw && o < out;
      const int64_t from = inside ? ((at.image * ph + py) * pw + px) * out + o : 0;
      const float gradient = to_float(dy[from]);
      const int argmax = a.argmax[from];
      const int base =
          tile.whole * p.x.to_tile + (2 * window.whole + argmax / 2) * p.pitch + (2 * window.rest + argmax % 2) * p.ins;
      records[e] = {gradient, inside && argmax < 4 ? base : -1};
    }
    __syncthreads();
    if (slice < p.slices) {
#pragma unroll 4
      for (int q = slice; q < tiles * windows; q += p.slices) {
        const Record r = records[q * p.outs + channel];
        const bool wins = r.at >= 0;
        const float* from = xs + (wins ? r.at : 0) + offset;
#pragma unroll
        for (int i = 0; i < R; ++i) {
          const float sum = __fmaf_rn(r.dy, from[i * p.pitch], sums[i]);
          sums[i] = wins ? sum : sums[i];
        }
        sums[R] = wins ? sums[R] + r.dy : sums[R];
      }
    }
    __syncthreads();
  }
  sum_over_slices(sums, places, p.slices);

  const int kx = offset / p.ins, i = in0 + offset % p.ins, o = out0 + channel;
  if (slice != 0 || i >= in || o >= out) return;
  const int64_t weights = int64_t{out} * k * k * in;
  float* dw = p.parts == 1 ? a.dw : static_cast<float*>(a.workspace) + part * (weights + out);
  float* db = p.parts == 1 ? a.db : dw + weights;
  for (int r = 0; r < R; ++r) dw[((int64_t{o} * k + ky + r) * k + kx) * in + i] = sums[r];
  if (offset == 0 && in0 == 0 && ky == 0) db[o] = sums[R];
}

template <class T, int R>
__global__ void __launch_bounds__(kThreads, 2) grad_weights(ConvReluPoolGradWArgs a, GradWPlan p) {
  wait_for_previous();
  add_windows<T, R>(a, p, static_cast<int>(blockIdx.x));
}

constexpr int kSums = 16;   // of a block that adds up parts
constexpr int kLanes = 32;  // over parts

/// dw and db from the parts' sums [part][weights + biases].
__global__ void __launch_bounds__(kSums* kLanes)
    add_parts(const float* __restrict__ all, int parts, int64_t weights, int64_t sums, float* __restrict__ dw,
              float* __restrict__ db) {
  wait_for_previous();
  const int lane = threadIdx.x / kSums;
  const int64_t i = int64_t{blockIdx.x} * kSums + threadIdx.x % kSums;
  float own[1] = {};
  if (i < sums) {
#pragma unroll 8
    for (int part = lane; part < parts; part += kLanes) own[0] += all[part * sums + i];
  }
  sum_over_slices(own, kSums, kLanes);
  if (lane == 0 && i < sums) *(i < weights ? dw + i : db + (i - weights)) = own[0];
}

// ---- input gradient: a thread has 2 x 2 pixels, two input channels and a slice of the output channels

constexpr int kPair = 2;

struct GradXPlan {
  int rows, columns, pairs;  // of a block: squares of 2 x 2 pixels, threads side by side in channels
  int slices, chunk;         // chunk: output channels that are staged at a time
  int row_tiles, column_tiles, channel_tiles;
  int reach;  // windows that touch a square, in a row
  Box w;
  Divisor per_out, per_column;
  int threads() const { return rows * columns * pairs * slices; }
  int ins() const { return pairs * kPair; }
  int record_windows() const { return (rows + reach - 1) * (columns + reach - 1); }
  int64_t blocks(int64_t n) const { return n * row_tiles * column_tiles * channel_tiles; }
};

GradXPlan grad_input_plan(const ConvReluPoolGradXArgs& a) {
  const ConvReluPoolShape& s = a.shape;
  const int k = s.kernel, taps = k * k, height = static_cast<int>(divide_up<int64_t>(s.height, 2)),
            width = static_cast<int>(divide_up<int64_t>(s.width, 2)), out = static_cast<int>(s.out_channels),
            in = static_cast<int>(s.in_channels);
  GradXPlan p;
  p.reach = k / 2 + 1;
  p.slices = std::min(out, 16);
  const auto floats_of_slices = [&] { return p.slices * (2 * p.record_windows() + taps * p.ins()); };
  const auto set = [&](int rows, int columns, int pairs) {
    p.rows = rows;
    p.columns = columns;
    p.pairs = pairs;
    p.row_tiles = divide_up(height, rows);
    p.column_tiles = divide_up(width, columns);
    p.channel_tiles = divide_up(in, p.ins());
    return p.threads() <= kThreads && floats_of_slices() <= kMostFloats;
  };
  int columns = balanced(width, 8);
  while (!set(1, columns, 1)) columns = divide_up(columns, 2);
  const int pairs = divide_up(in, kPair);
  for (int tiles = 1; tiles <= pairs; ++tiles)
    if ((set(1, columns, divide_up(pairs, tiles)) && p.blocks(s.n) >= kSpread) || tiles == pairs) break;
  const int fixed_pairs = p.pairs;
  for (int tiles = 1; tiles <= height; ++tiles)
    if ((set(divide_up(height, tiles), columns, fixed_pairs) && p.blocks(s.n) >= kPlenty) || tiles == height) break;
  p.chunk = std::min(p.slices * std::max(1, kGoodFloats / floats_of_slices()), out);
  p.w = weights_box(s, p.chunk, p.ins());
  p.w.to_row = taps * p.ins();
  p.w.to_column = p.ins();
  p.w.to_channel = 1;
  p.w.wide = takes_packs(p.w, s.type, a.w, 0, true);
  p.per_out = Divisor(p.chunk);
  p.per_column = Divisor(p.columns + p.reach - 1);
  return p;
}

/// Block number `block`. K 0: any kernel.
template <class T, int K>
__device__ __forceinline__ void gather_windows(const ConvReluPoolGradXArgs& a, const GradXPlan& p, int block) {
  const ConvReluPoolShape& s = a.shape;
  const int kernel = K == 0 ? s.kernel : K, taps = kernel * kernel, reach = kernel / 2 + 1, ins = p.pairs * kPair;
  const int in = s.in_channels, out = s.out_channels, ph = s.pooled_height(), pw = s.pooled_width();
  const int in0 = block % p.channel_tiles * ins;
  block /= p.channel_tiles;
  const int column0 = block % p.column_tiles * p.columns;
  block /= p.column_tiles;
  const int row0 = block % p.row_tiles * p.rows;
  const int64_t image = block / p.row_tiles;

  const int t = threadIdx.x, squares = p.rows * p.columns, items = squares * p.pairs;
  const int slice = t / items, item = t % items, pair = item / squares, square = item % squares;
  const int row = square / p.columns, column = square % p.columns, record_columns = p.columns + reach - 1;

  auto* records = shared_memory<Record>();  // [window's row][column][out], the first reach - 1 before the tile
  const int windows = (p.rows + reach - 1) * record_columns;
  float* ws = shared_memory<float>() + 2 * windows * p.chunk;  // [out][tap][ins]
  const auto* w = static_cast<const T*>(a.w);
  const auto* dy = static_cast<const T*>(a.dy);

  float sums[4][kPair] = {};
  for (int out0 = 0; out0 < out; out0 += p.chunk) {
    if (out0 > 0) __syncthreads();
    const int outs = min(p.chunk, out - out0);
    stage(
        p.w, 1, w,
        [&](int) {
          return Corner<T>{w + out0 * p.w.row_stride + in0, outs, taps, in - in0};
        },
        ws);
    if (ph > 0 && pw > 0) {
#pragma unroll 4
      for (int e = t; e < windows * p.chunk; e += static_cast<int>(blockDim.x)) {
        const Quotient by_out = divide(e, p.per_out), window = divide(by_out.whole, p.per_column);
        const int py = row0 + window.whole - (reach - 1), px = column0 + window.rest - (reach - 1);
        const bool inside = py >= 0 && py < ph && px >= 0 && px < pw && by_out.rest < outs;
        const int64_t from = inside ? ((image * ph + py) * pw + px) * out + out0 + by_out.rest : 0;
        const float gradient = to_float(dy[from]);
        const int argmax = a.argmax[from];
        records[e] = {gradient, inside && argmax < 4 ? argmax : -1};
      }
    }
    __syncthreads();
    if (slice < p.slices && ph > 0 && pw > 0)
      for (int o = slice; o < outs; o += p.slices) {
        const float* weights = ws + o * taps * ins + pair * kPair;
        for (int dr = 0; dr < reach; ++dr) {
          const Record* line = records + ((row + dr) * record_columns + column) * p.chunk + o;
#pragma unroll
          for (int dc = 0; dc < reach; ++dc) {
            const Record r = line[dc * p.chunk];
            if (r.at < 0) continue;
            const int ky = 2 * (reach - 1 - dr) - r.at / 2, kx = 2 * (reach - 1 - dc) - r.at % 2;
#pragma unroll
            for (int pixel = 0; pixel < 4; ++pixel) {
              const int y = ky + pixel / 2, x = kx + pixel % 2;
              if (y < 0 || y >= kernel || x < 0 || x >= kernel) continue;
              const auto both = *reinterpret_cast<const Pack<float, kPair>*>(weights + (y * kernel + x) * ins);
              for (int v = 0; v < kPair; ++v) sums[pixel][v] = __fmaf_rn(r.dy, both.at[v], sums[pixel][v]);
            }
          }
        }
      }
  }
  __syncthreads();  // what was staged makes room for the slices' sums: [pixel][v][slice][item]
  auto* all = shared_memory<float>();
  const int step = items * p.slices;
  if (slice < p.slices)
    for (int i = 0; i < 4 * kPair; ++i) all[i * step + t] = sums[i / kPair][i % kPair];
  __syncthreads();

  const int line = 2 * p.columns * ins;  // of pixels
  for (int j = t; j < 2 * p.rows * line; j += static_cast<int>(blockDim.x)) {
    const int y = j / line, x = j % line / ins, channel = j % ins;
    const int64_t to_y = 2 * row0 + y, to_x = 2 * column0 + x, i = in0 + channel;
    if (to_y >= s.height || to_x >= s.width || i >= in) continue;
    const int of = channel / kPair * squares + y / 2 * p.columns + x / 2;
    const float* parts = all + ((y % 2 * 2 + x % 2) * kPair + channel % kPair) * step + of;
    const float sum = sum_of_slices(parts, p.slices, items, 0);
    static_cast<T*>(a.dx)[((image * s.height + to_y) * s.width + to_x) * in + i] = from_float<T>(sum);
  }
}

template <class T, int K>
__global__ void __launch_bounds__(kThreads, 2) grad_input(ConvReluPoolGradXArgs a, GradXPlan p) {
  wait_for_previous();
  gather_windows<T, K>(a, p, static_cast<int>(blockIdx.x));
}

/// Both gradients for few images, of which neither reads what the other writes.
template <class T, int K>
__global__ void __launch_bounds__(kThreads, 2)
    grads(ConvReluPoolGradXArgs input, GradXPlan input_plan, ConvReluPoolGradWArgs weights, GradWPlan weights_plan,
          int blocks_of_input) {
  wait_for_previous();
  const int block = static_cast<int>(blockIdx.x);
  if (block < blocks_of_input)
    gather_windows<T, K>(input, input_plan, block);
  else
    add_windows<T, 1>(weights, weights_plan, block - blocks_of_input);
}

// ---- launchers

bool valid(const ConvReluPoolShape& s) {
  constexpr int64_t kMost = 1 << 24, kMostWindows = 1 << 30;
  return s.n >= 0 && s.in_channels >= 1 && s.in_channels <= kMost && s.out_channels >= 1 && s.out_channels <= kMost &&
         s.kernel >= 1 && s.kernel <= 15 && s.height >= s.kernel && s.height <= kMost && s.width >= s.kernel &&
         s.width <= kMost && s.n <= kMostWindows / std::max<int64_t>(1, s.pooled_height() * s.pooled_width());
}

/// call(element, std::integral_constant of the kernel's size, 0: any).
template <class Call>
cudaError_t with_kernel(const ConvReluPoolShape& s, Call call) {
  return with_type(s.type, [&](auto element) {
    if (s.kernel == 5) return call(element, std::integral_constant<int, 5>());
    if (s.kernel == 3) return call(element, std::integral_constant<int, 3>());
    return call(element, std::integral_constant<int, 0>());
  });
}

/// Of a launch: blocks, and of each the threads and floats of shared memory that it needs at least.
struct Size {
  int64_t blocks;
  int threads, floats;
};
Size size_of(const GradWPlan& p, int kernel) {
  const int threads = p.places(kernel) * p.slices;
  return {p.outputs() * p.parts, threads, std::max(p.at_once * p.tile_floats(), (p.kernel_rows + 1) * threads)};
}
Size size_of(const GradXPlan& p, const ConvReluPoolShape& s) {
  const int staged = p.chunk * (2 * p.record_windows() + s.kernel * s.kernel * p.ins());
  return {p.blocks(s.n), p.threads(), std::max(staged, 4 * kPair * p.threads())};
}

template <class... Parameters, class... Args>
cudaError_t launch_blocks(void (*kernel)(Parameters...), const Size& size, cudaStream_t stream, const Args&... args) {
  if (size.blocks > std::numeric_limits<int>::max()) return cudaErrorInvalidValue;
  const int whole_warps = std::max(kLeastThreads, divide_up(size.threads, kWarp) * kWarp);
  return launch_early(kernel,
                      Grid{.blocks = static_cast<unsigned>(size.blocks),
                           .threads = static_cast<unsigned>(whole_warps),
                           .shared_bytes = static_cast<size_t>(size.floats) * sizeof(float)},
                      stream, args...);
}

int64_t sums(const ConvReluPoolShape& s) { return s.out_channels * (s.kernel * s.kernel * s.in_channels + 1); }

}  // namespace

cudaError_t conv_relu_pool(const ConvReluPoolArgs& a, cudaStream_t stream) {
  if (!valid(a.shape)) return cudaErrorInvalidValue;
  return with_kernel(a.shape, [&]<class T, int K>(T, std::integral_constant<int, K>) {
    if (a.shape.pooled_height() == 0 || a.shape.pooled_width() == 0) return cudaSuccess;
    const ForwardPlan p = forward_plan(a);
    const int staged = p.chunk * (p.plane + a.shape.kernel * a.shape.kernel * p.outs());
    const Size size{p.blocks(a.shape.n), p.threads(), std::max(staged, 4 * p.vector * p.threads())};
    return launch_blocks(p.vector == 4 ? forward<T, K, 4> : forward<T, K, 1>, size, stream, a, p);
  });
}

cudaError_t conv_relu_pool_grad_weights(const ConvReluPoolGradWArgs& a, cudaStream_t stream) {
  const ConvReluPoolShape& s = a.shape;
  if (!valid(s)) return cudaErrorInvalidValue;
  const GradWPlan p = grad_weights_plan(a);
  const cudaError_t error = with_type(s.type, [&]<class T>(T) {
    const auto kernel = p.kernel_rows == 5   ? grad_weights<T, 5>
                        : p.kernel_rows == 3 ? grad_weights<T, 3>
                                             : grad_weights<T, 1>;
    return launch_blocks(kernel, size_of(p, s.kernel), stream, a, p);
  });
  if (error != cudaSuccess || p.parts == 1) return error;
  const Grid grid{.blocks = static_cast<unsigned>(divide_up<int64_t>(sums(s), kSums)),
                  .threads = kSums * kLanes,
                  .shared_bytes = kSums * kLanes * sizeof(float)};
  return launch_early(add_parts, grid, stream, static_cast<const float*>(a.workspace), p.parts,
                      sums(s) - s.out_channels, sums(s), a.dw, a.db);
}

size_t conv_relu_pool_grad_weights_workspace(const ConvReluPoolShape& shape) {
  if (!valid(shape)) return 0;
  const GradWPlan p = grad_weights_plan(shape);
  return p.parts == 1 ? 0 : static_cast<size_t>(p.parts * sums(shape)) * sizeof(float);
}

cudaError_t conv_relu_pool_grad_input(const ConvReluPoolGradXArgs& a, cudaStream_t stream) {
  if (!valid(a.shape)) return cudaErrorInvalidValue;
  return with_kernel(a.shape, [&]<class T, int K>(T, std::integral_constant<int, K>) {
    const GradXPlan p = grad_input_plan(a);
    return launch_blocks(grad_input<T, K>, size_of(p, a.shape), stream, a, p);
  });
}

cudaError_t conv_relu_pool_grad(const ConvReluPoolGradArgs& a, cudaStream_t stream) {
  const ConvReluPoolShape& s = a.weights.shape;
  if (!valid(s) || s != a.input.shape) return cudaErrorInvalidValue;
  const GradWPlan weights = grad_weights_plan(a.weights);
  const GradXPlan input = grad_input_plan(a.input);
  if (weights.parts > 1) return cudaErrorInvalidValue;
  const Size of_dw = size_of(weights, s.kernel), of_dx = size_of(input, s);
  const Size size{of_dw.blocks + of_dx.blocks, std::max(of_dw.threads, of_dx.threads),
                  std::max(of_dw.floats, of_dx.floats)};
  return with_kernel(s, [&]<class T, int K>(T, std::integral_constant<int, K>) {
    return launch_blocks(grads<T, K>, size, stream, a.input, input, a.weights, weights, static_cast<int>(of_dx.blocks));
  });
}

}  // namespace ct::kernels
