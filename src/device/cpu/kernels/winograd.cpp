#include "device/cpu/kernels/winograd.h"

#include <algorithm>

#include "device/cpu/kernels/targets.h"
#include "device/cpu/kernels/typed.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/winograd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

#ifndef CT_WINOGRAD_LAYOUT
#define CT_WINOGRAD_LAYOUT
namespace ct::cpu {

constexpr int64_t kTile = 4, kPatch = 6, kPlanes = kPatch * kPatch;  // outputs, inputs, products of a tile
constexpr int64_t kSkew = 16;  // floats that keep rows and planes from sharing the same few places of a cache

/// One of 36 matrices after the other, rows of `columns` floats.
struct Planes {
  int64_t row, plane;
  Planes(int64_t rows, int64_t columns, int64_t skew = kSkew) : row(columns + skew), plane(rows * row + kSkew) {}
  size_t floats() const { return static_cast<size_t>(kPlanes * plane); }
};

/// Columns of a product that are worked on together, down to the result: their planes stay in the cache.
constexpr int64_t kGroup = 64;

/// Tiles of 4x4 outputs. Where they are few and channels are many, transformed weights are larger than transformed
/// images: then all tiles are worked on at once (`whole`), and weights group by group. Else weights are kept whole, and
/// tiles are worked on a chunk at a time: as many as the cache holds, but enough to multiply at full speed.
struct Tiles {
  int64_t down, across, all, chunk;
  bool whole;
  Tiles(const WinogradShape& s, int64_t channels, int64_t fewest)
      : down((s.out_height() + kTile - 1) / kTile),
        across((s.out_width() + kTile - 1) / kTile),
        all(s.n * down * across),
        whole(all <= std::min(s.in_channels, s.out_channels)) {
    constexpr int64_t kMultiple = 12, kBytes = 768 * 1024;
    const int64_t fit = kBytes / (kPlanes * channels * static_cast<int64_t>(sizeof(float)));
    chunk = whole ? all : std::min(all, std::max(fewest, fit / kMultiple * kMultiple));
  }
};

/// The workspace: planes of weights, of inputs and of outputs, a row of zeros, and one that nobody reads.
struct WinogradSpace {
  Tiles tiles;
  Planes weights, in, out;
  int64_t channels;
  size_t floats() const { return weights.floats() + in.floats() + out.floats() + 2 * static_cast<size_t>(channels); }
};
/// Forward: weights [in][out], in panels of columns one after the other; outputs a group at a time.
inline WinogradSpace forward_space(const WinogradShape& s) {
  const int64_t group = std::min(kGroup, s.out_channels);
  const Tiles tiles(s, s.in_channels + group, /*fewest=*/36);
  return {tiles,
          {s.in_channels, tiles.whole ? group : s.out_channels, /*skew=*/0},
          {tiles.chunk, s.in_channels},
          {tiles.chunk, group},
          std::max(s.in_channels, s.out_channels)};
}
/// Weight gradient: weights [out][in].
inline WinogradSpace grad_weights_space(const WinogradShape& s) {
  const Tiles tiles(s, s.in_channels + s.out_channels, /*fewest=*/72);
  return {tiles,
          {s.out_channels, tiles.whole ? std::min(kGroup, s.in_channels) : s.in_channels},
          {tiles.chunk, s.in_channels},
          {tiles.chunk, s.out_channels},
          std::max(s.in_channels, s.out_channels)};
}

}  // namespace ct::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

// The transforms of one dimension for the points 0, +-a, +-b and infinity (Toom & Cook), with p = a^2 and q = b^2:
//   y = AT [(G g) . (BT d)], AT row i: 1 a^i (-a)^i b^i (-b)^i, the last one with 1 for infinity
// and their transposes for the gradient of g.
constexpr float kA = 0.625f, kB = 1.5f, kP = kA * kA, kQ = kB * kB;
constexpr float kN0 = 1 / (kP * kQ), kNa = 1 / (2 * kP * (kP - kQ)), kNb = 1 / (2 * kQ * (kQ - kP));

HWY_INLINE V times(float factor, V x) { return hn::Mul(hn::Set(d, factor), x); }
/// y + factor x
HWY_INLINE V plus(V y, float factor, V x) { return hn::MulAdd(hn::Set(d, factor), x, y); }

struct InputTransform {  // BT
  static constexpr int kFrom = 6, kTo = 6;
  static HWY_INLINE void apply(const V* x, V* y) {
    const V even_a = plus(x[4], -kQ, x[2]), odd_a = times(kA, plus(x[3], -kQ, x[1]));
    const V even_b = plus(x[4], -kP, x[2]), odd_b = times(kB, plus(x[3], -kP, x[1]));
    y[0] = plus(plus(x[4], -(kP + kQ), x[2]), kP * kQ, x[0]);
    y[1] = hn::Add(even_a, odd_a);
    y[2] = hn::Sub(even_a, odd_a);
    y[3] = hn::Add(even_b, odd_b);
    y[4] = hn::Sub(even_b, odd_b);
    y[5] = plus(plus(x[5], -(kP + kQ), x[3]), kP * kQ, x[1]);
  }
};

struct OutputTransform {  // AT
  static constexpr int kFrom = 6, kTo = 4;
  static HWY_INLINE void apply(const V* x, V* y) {
    const V even_a = hn::Add(x[1], x[2]), odd_a = hn::Sub(x[1], x[2]);
    const V even_b = hn::Add(x[3], x[4]), odd_b = hn::Sub(x[3], x[4]);
    y[0] = hn::Add(x[0], hn::Add(even_a, even_b));
    y[1] = plus(times(kA, odd_a), kB, odd_b);
    y[2] = plus(times(kP, even_a), kQ, even_b);
    y[3] = hn::Add(x[5], plus(times(kA * kP, odd_a), kB * kQ, odd_b));
  }
};

struct OutputGradient {  // A
  static constexpr int kFrom = 4, kTo = 6;
  static HWY_INLINE void apply(const V* x, V* y) {
    const V even_a = plus(x[0], kP, x[2]), odd_a = plus(times(kA, x[1]), kA * kP, x[3]);
    const V even_b = plus(x[0], kQ, x[2]), odd_b = plus(times(kB, x[1]), kB * kQ, x[3]);
    y[0] = x[0];
    y[1] = hn::Add(even_a, odd_a);
    y[2] = hn::Sub(even_a, odd_a);
    y[3] = hn::Add(even_b, odd_b);
    y[4] = hn::Sub(even_b, odd_b);
    y[5] = x[3];
  }
};

struct WeightTransform {  // G
  static constexpr int kFrom = 3, kTo = 6;
  static HWY_INLINE void apply(const V* x, V* y) {
    const V even_a = times(kNa, plus(x[0], kP, x[2])), odd_a = times(kNa * kA, x[1]);
    const V even_b = times(kNb, plus(x[0], kQ, x[2])), odd_b = times(kNb * kB, x[1]);
    y[0] = times(kN0, x[0]);
    y[1] = hn::Add(even_a, odd_a);
    y[2] = hn::Sub(even_a, odd_a);
    y[3] = hn::Add(even_b, odd_b);
    y[4] = hn::Sub(even_b, odd_b);
    y[5] = x[2];
  }
};

struct WeightGradient {  // GT
  static constexpr int kFrom = 6, kTo = 3;
  static HWY_INLINE void apply(const V* x, V* y) {
    const V even_a = times(kNa, hn::Add(x[1], x[2])), odd_a = times(kNa, hn::Sub(x[1], x[2]));
    const V even_b = times(kNb, hn::Add(x[3], x[4])), odd_b = times(kNb, hn::Sub(x[3], x[4]));
    y[0] = plus(hn::Add(even_a, even_b), kN0, x[0]);
    y[1] = plus(times(kA, odd_a), kB, odd_b);
    y[2] = hn::Add(x[5], plus(times(kP, even_a), kQ, even_b));
  }
};

/// A transform of both dimensions: load(place) of a square of kFrom, store(place, vector) of a square of kTo.
template <class Transform, class Load, class Store>
HWY_INLINE void transform(Load&& load_at, Store&& store_at) {
  constexpr int kFrom = Transform::kFrom, kTo = Transform::kTo;
  V half[kTo * kFrom];
  unroll<kFrom>([&](auto column) CT_UNROLLED {
    V x[kFrom], y[kTo];
    unroll<kFrom>([&](auto row) CT_UNROLLED { x[row] = load_at(row * kFrom + column); });
    Transform::apply(x, y);
    unroll<kTo>([&](auto row) CT_UNROLLED { half[row * kFrom + column] = y[row]; });
  });
  unroll<kTo>([&](auto row) CT_UNROLLED {
    V y[kTo];
    Transform::apply(half + row * kFrom, y);
    unroll<kTo>([&](auto column) CT_UNROLLED { store_at(row * kTo + column, y[column]); });
  });
}

/// Squares of `Side` pixels of NHWC images, a tile each; what lies outside an image is at `outside`.
template <int Side, class T>
struct Squares {
  T* images;
  int64_t height, width, channels, pad;
  T* outside;

  /// The addresses of the pixels of tile t.
  HWY_INLINE void of(int64_t t, const Tiles& tiles, T** at) const {
    const int64_t image = t / (tiles.down * tiles.across), in_image = t % (tiles.down * tiles.across);
    const int64_t top = in_image / tiles.across * kTile - pad, left = in_image % tiles.across * kTile - pad;
    for (int64_t i = 0; i < Side; ++i)
      for (int64_t j = 0; j < Side; ++j) {
        const int64_t y = top + i, x = left + j;
        const bool inside = y >= 0 && y < height && x >= 0 && x < width;
        at[i * Side + j] = inside ? images + ((image * height + y) * width + x) * channels : outside;
      }
  }
};

/// Pixels of some tiles into planes [tile][channel].
template <class Transform, class T>
HWY_INLINE void to_planes(const Squares<Transform::kFrom, const T>& squares, const Tiles& tiles, int64_t first,
                          int64_t count, const Planes& planes, float* HWY_RESTRICT to) {
  constexpr int kFrom = Transform::kFrom;
  const T* at[kFrom * kFrom];
  for (int64_t t = 0; t < count; ++t, to += planes.row) {
    squares.of(first + t, tiles, at);
    for (int64_t c = 0; c < squares.channels; c += kLanes)
      transform<Transform>([&](int i) CT_UNROLLED { return load(d, at[i] + c); },
                           [&](int i, V v) CT_UNROLLED { hn::StoreU(v, d, to + i * planes.plane + c); });
  }
}

/// Planes [tile][end - begin] into the channels [begin, end) of pixels.
template <class T>
HWY_INLINE void to_pixels(const Squares<4, T>& squares, const Tiles& tiles, int64_t first, int64_t count, int64_t begin,
                          int64_t end, const Planes& planes, const float* HWY_RESTRICT from, const float* b) {
  T* at[16];
  for (int64_t t = 0; t < count; ++t, from += planes.row) {
    squares.of(first + t, tiles, at);
    for (int64_t c = begin; c < end; c += kLanes) {
      const V bias = b == nullptr ? hn::Zero(d) : hn::LoadU(d, b + c);
      transform<OutputTransform>([&](int i) CT_UNROLLED { return hn::LoadU(d, from + i * planes.plane + (c - begin)); },
                                 [&](int i, V v) CT_UNROLLED { store(d, hn::Add(v, bias), at[i] + c); });
    }
  }
}

constexpr int kColumns = 2 * kLanes;  // of a product's block, in registers
constexpr int kRows = kWide ? 12 : 6;

/// An operand whose element (row, k) is at[row * row_step + k * k_step].
struct Left {
  const float* at;
  int64_t row_step, k_step;
};

/// c [Rows][kColumns] = left x right, whose rows of kColumns begin right_step apart, or is added to.
template <int Rows>
HWY_INLINE void multiply_block(const Left& left, const float* HWY_RESTRICT right, int64_t right_step, int64_t depth,
                               float* HWY_RESTRICT c, int64_t c_row, bool add) {
  constexpr int kNear = 3, kFar = (Rows + kNear - 1) / kNear;  // rows by few addresses
  V sum[Rows][2];
  const float* rows[kFar];
  unroll<kFar>([&](auto g) CT_UNROLLED { rows[g] = left.at + g * kNear * left.row_step; });
  unroll<Rows>([&](auto r) CT_UNROLLED {
    sum[r][0] = add ? hn::LoadU(d, c + r * c_row) : hn::Zero(d);
    sum[r][1] = add ? hn::LoadU(d, c + r * c_row + kLanes) : hn::Zero(d);
  });
  for (int64_t k = 0; k < depth; ++k, right += right_step) {
    const V right0 = hn::LoadU(d, right), right1 = hn::LoadU(d, right + kLanes);
    unroll<Rows>([&](auto r) CT_UNROLLED {
      const V one = hn::Set(d, rows[r / kNear][(r % kNear) * left.row_step]);
      sum[r][0] = hn::MulAdd(one, right0, sum[r][0]);
      sum[r][1] = hn::MulAdd(one, right1, sum[r][1]);
    });
    unroll<kFar>([&](auto g) CT_UNROLLED { rows[g] += left.k_step; });
  }
  unroll<Rows>([&](auto r) CT_UNROLLED {
    hn::StoreU(sum[r][0], d, c + r * c_row);
    hn::StoreU(sum[r][1], d, c + r * c_row + kLanes);
  });
}

/// kColumns columns of c = left x right.
HWY_INLINE void multiply(Left left, const float* right, int64_t right_step, int64_t rows, int64_t depth, float* c,
                         int64_t c_row, bool add) {
  const auto blocks = [&](auto size) CT_UNROLLED {
    constexpr int kSize = decltype(size)::value;
    for (; rows >= kSize; rows -= kSize, left.at += kSize * left.row_step, c += kSize * c_row)
      multiply_block<kSize>(left, right, right_step, depth, c, c_row, add);
  };
  blocks(std::integral_constant<int, kRows>());
  blocks(std::integral_constant<int, kRows * 2 / 3>());
  blocks(std::integral_constant<int, 2>());
  blocks(std::integral_constant<int, 1>());
}

/// The elements i of kLanes rows.
struct Column {
  static constexpr hn::RebindToSigned<D> di{};
  hn::Vec<hn::RebindToSigned<D>> rows;
  HWY_INLINE explicit Column(int64_t row) : rows(hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(row)))) {}

  HWY_INLINE V operator()(const float* matrix, int64_t i) const { return hn::GatherIndex(d, matrix + i, rows); }
  /// As halves of the 32 bits that they lie in: rows and `matrix` are even numbers of elements.
  HWY_INLINE V operator()(const uint16_t* matrix, int64_t i) const {
    const hn::RebindToUnsigned<D> du;
    const auto two = hn::BitCast(
        du, hn::GatherOffset(di, reinterpret_cast<const int32_t*>(matrix + i / 2 * 2), hn::ShiftLeft<1>(rows)));
    return hn::BitCast(d, i % 2 != 0 ? hn::And(two, hn::Set(du, 0xFFFF0000)) : hn::ShiftLeft<16>(two));
  }
};

/// Weights of the outputs [begin, end) into planes [in][end - begin], panels of kColumns columns one after the other.
template <class T>
HWY_INLINE void transform_weights(const WinogradArgs<T>& a, int64_t begin, int64_t end, const Planes& planes,
                                  float* to) {
  const int64_t in = a.shape.in_channels, out = a.shape.out_channels;
  const Column column_of(9 * in);
  for (int64_t o = begin; o < end; o += kLanes) {
    const int64_t panel = (o - begin) / kColumns, column = (o - begin) % kColumns;
    for (int64_t i = 0; i < in; ++i) {
      float* at = to + (panel * in + i) * kColumns + column;
      const auto store_at = [&](int plane, V v) CT_UNROLLED { hn::StoreU(v, d, at + plane * planes.plane); };
      if (a.rotated)
        transform<WeightTransform>([&](int tap) CT_UNROLLED { return load(d, a.w + (i * 9 + 8 - tap) * out + o); },
                                   store_at);
      else
        transform<WeightTransform>([&](int tap) CT_UNROLLED { return column_of(a.w + (o * 9 + tap) * in, i); },
                                   store_at);
    }
  }
}

template <class T>
HWY_INLINE void forward(const WinogradArgs<T>& a) {
  const WinogradShape& s = a.shape;
  const WinogradSpace space = forward_space(s);
  const Tiles& tiles = space.tiles;
  float *weights = a.workspace, *in = weights + space.weights.floats(), *out = in + space.in.floats(),
        *zeros = out + space.out.floats(), *unread = zeros + space.channels;
  std::fill_n(zeros, space.channels, 0.0f);  // as bf16 too
  if (!tiles.whole) transform_weights(a, 0, s.out_channels, space.weights, weights);
  const Squares<6, const T> from{a.x, s.height, s.width, s.in_channels, s.pad, reinterpret_cast<const T*>(zeros)};
  const Squares<4, T> to{a.y, s.out_height(), s.out_width(), s.out_channels, 0, reinterpret_cast<T*>(unread)};
  for (int64_t first = 0; first < tiles.all; first += tiles.chunk) {
    const int64_t count = std::min(tiles.chunk, tiles.all - first);
    to_planes<InputTransform>(from, tiles, first, count, space.in, in);
    for (int64_t begin = 0; begin < s.out_channels; begin += kGroup) {
      const int64_t end = std::min(s.out_channels, begin + kGroup);
      if (tiles.whole) transform_weights(a, begin, end, space.weights, weights);
      const float* group = tiles.whole ? weights : weights + begin * s.in_channels;
      for (int64_t plane = 0; plane < kPlanes; ++plane) {
        const Left left{in + plane * space.in.plane, space.in.row, 1};
        for (int64_t o = 0; o < end - begin; o += kColumns)
          multiply(left, group + plane * space.weights.plane + o * s.in_channels, kColumns, count, s.in_channels,
                   out + plane * space.out.plane + o, space.out.row, /*add=*/false);
      }
      to_pixels(to, tiles, first, count, begin, end, space.out, out, a.b);
    }
  }
}

/// Planes [out][in] of the inputs [begin, end) into the gradient of the weights.
template <class T>
HWY_INLINE void to_weights(const WinogradGradWArgs<T>& a, int64_t begin, int64_t end, const Planes& planes,
                           const float* from) {
  const int64_t in = a.shape.in_channels;
  for (int64_t o = 0; o < a.shape.out_channels; ++o, from += planes.row)
    for (int64_t i = begin; i < end; i += kLanes)
      transform<WeightGradient>([&](int plane)
                                    CT_UNROLLED { return hn::LoadU(d, from + plane * planes.plane + (i - begin)); },
                                [&](int tap, V v) CT_UNROLLED { hn::StoreU(v, d, a.dw + (o * 9 + tap) * in + i); });
}

template <class T>
HWY_INLINE void grad_weights(const WinogradGradWArgs<T>& a) {
  const WinogradShape& s = a.shape;
  const WinogradSpace space = grad_weights_space(s);
  const Tiles& tiles = space.tiles;
  float *sums = a.workspace, *in = sums + space.weights.floats(), *out = in + space.in.floats(),
        *zeros = out + space.out.floats();
  std::fill_n(zeros, space.channels, 0.0f);
  const T* outside = reinterpret_cast<const T*>(zeros);
  const Squares<6, const T> x{a.x, s.height, s.width, s.in_channels, s.pad, outside};
  const Squares<4, const T> dy{a.dy, s.out_height(), s.out_width(), s.out_channels, 0, outside};
  for (int64_t first = 0; first < tiles.all; first += tiles.chunk) {
    const int64_t count = std::min(tiles.chunk, tiles.all - first);
    to_planes<InputTransform>(x, tiles, first, count, space.in, in);
    to_planes<OutputGradient>(dy, tiles, first, count, space.out, out);
    for (int64_t begin = 0; begin < s.in_channels; begin += kGroup) {
      const int64_t end = std::min(s.in_channels, begin + kGroup);
      float* group = tiles.whole ? sums : sums + begin;
      for (int64_t plane = 0; plane < kPlanes; ++plane) {
        const Left left{out + plane * space.out.plane, 1, space.out.row};
        for (int64_t i = begin; i < end; i += kColumns)
          multiply(left, in + plane * space.in.plane + i, space.in.row, s.out_channels, count,
                   group + plane * space.weights.plane + (i - begin), space.weights.row, /*add=*/first > 0);
      }
      if (tiles.whole) to_weights(a, begin, end, space.weights, group);
    }
  }
  if (!tiles.whole) to_weights(a, 0, s.in_channels, space.weights, sums);
}

CT_TYPED_TARGET(Forward, forward, WinogradArgs)
CT_TYPED_TARGET(GradWeights, grad_weights, WinogradGradWArgs)

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
CT_TYPED_KERNEL(winograd, Forward, WinogradArgs)
CT_TYPED_KERNEL(winograd_grad_weights, GradWeights, WinogradGradWArgs)
size_t winograd_workspace(const WinogradShape& shape) { return forward_space(shape).floats(); }
size_t winograd_grad_weights_workspace(const WinogradShape& shape) { return grad_weights_space(shape).floats(); }
}  // namespace ct::cpu
#endif
