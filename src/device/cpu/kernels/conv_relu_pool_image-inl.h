// conv_relu_pool for planar 3x32x32 images -> 6 channels, k 5: the tutorial network's first layer.
#if defined(CT_CONV_RELU_POOL_IMAGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CT_CONV_RELU_POOL_IMAGE_INL_H_
#undef CT_CONV_RELU_POOL_IMAGE_INL_H_
#else
#define CT_CONV_RELU_POOL_IMAGE_INL_H_
#endif

#include <cstring>

#include "device/cpu/kernels/conv_relu_pool.h"
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE::image {
#if HWY_TARGET != HWY_SCALAR

constexpr int kIn = 3, kSide = 32, kPlane = kSide * kSide, kOut = 6, kKernel = 5, kTaps = kKernel * kKernel * kIn;
constexpr int kPooled = 14, kRow = kPooled * kOut;  // one row of y: 84 floats

// ---- forward: lanes along x, two rows x two vectors of columns x channels in registers, pooled there

using DI = hn::RebindToSigned<D>;
using VI = hn::Vec<DI>;
constexpr DI di;

/// Two rows of the convolution at columns [0, 2 * kLanes), pooled into kLanes columns for channels [first,
/// first+Count).
template <int Count>
HWY_NOINLINE void pooled_columns(const float* HWY_RESTRICT x, const float* HWY_RESTRICT w, const float* HWY_RESTRICT b,
                                 float* HWY_RESTRICT values, int32_t* HWY_RESTRICT places) {
  V acc[Count][2][2];
  unroll<Count>([&](auto o) CT_UNROLLED {
    const V bias = hn::Set(d, b[o]);
    acc[o][0][0] = acc[o][0][1] = acc[o][1][0] = acc[o][1][1] = bias;
  });
  for (int i = 0; i < kIn; ++i)
    for (int ky = 0; ky < kKernel; ++ky) {
      const float* upper = x + i * kPlane + ky * kSide;
      const float* weights = w + ky * kKernel * kIn + i;
      // Not unrolled: with several taps the compiler would hoist loads and spill accumulators.
#pragma GCC unroll 1
      for (int kx = 0; kx < kKernel; ++kx) {
        const V x00 = hn::LoadU(d, upper + kx), x01 = hn::LoadU(d, upper + kx + kLanes);
        const V x10 = hn::LoadU(d, upper + kSide + kx), x11 = hn::LoadU(d, upper + kSide + kx + kLanes);
        unroll<Count>([&](auto o) CT_UNROLLED {
          const V weight = hn::Set(d, weights[o * kTaps + kx * kIn]);
          acc[o][0][0] = hn::MulAdd(weight, x00, acc[o][0][0]);
          acc[o][0][1] = hn::MulAdd(weight, x01, acc[o][0][1]);
          acc[o][1][0] = hn::MulAdd(weight, x10, acc[o][1][0]);
          acc[o][1][1] = hn::MulAdd(weight, x11, acc[o][1][1]);
        });
      }
    }
  const VI zero = hn::Zero(di), one = hn::Set(di, 1), two = hn::Set(di, 2), three = hn::Set(di, 3),
           four = hn::Set(di, 4);
  unroll<Count>([&](auto o) CT_UNROLLED {
    const V even0 = hn::ConcatEven(d, acc[o][0][1], acc[o][0][0]), odd0 = hn::ConcatOdd(d, acc[o][0][1], acc[o][0][0]);
    const V even1 = hn::ConcatEven(d, acc[o][1][1], acc[o][1][0]), odd1 = hn::ConcatOdd(d, acc[o][1][1], acc[o][1][0]);
    const auto right0 = hn::Gt(odd0, even0), right1 = hn::Gt(odd1, even1);
    const V top = hn::IfThenElse(right0, odd0, even0), bottom = hn::IfThenElse(right1, odd1, even1);
    const auto lower = hn::Gt(bottom, top);
    const V best = hn::IfThenElse(lower, bottom, top);
    const auto cut = hn::Le(best, hn::Zero(d));
    const VI place = hn::IfThenElse(hn::RebindMask(di, lower), hn::IfThenElse(hn::RebindMask(di, right1), three, two),
                                    hn::IfThenElse(hn::RebindMask(di, right0), one, zero));
    hn::Store(hn::IfThenZeroElse(cut, best), d, values + o * 16);
    hn::Store(hn::IfThenElse(hn::RebindMask(di, cut), four, place), di, places + o * 16);
  });
}

/// Stores the first 128-bit blocks of v: block i goes to out + i * stride.
template <class DV, class VV>
HWY_INLINE void store_blocks(DV tag, VV v, float* out, int stride, int blocks) {
  if constexpr (hn::MaxLanes(DV()) > 4) {
    const hn::Half<DV> half;
    constexpr int kBlocks = static_cast<int>(hn::MaxLanes(DV())) / 8;
    store_blocks(half, hn::LowerHalf(half, v), out, stride, blocks);
    if (blocks > kBlocks) store_blocks(half, hn::UpperHalf(half, v), out + kBlocks * stride, stride, blocks - kBlocks);
  } else {
    hn::StoreU(v, tag, out);
  }
}

/// [6][16] -> [14][6] of floats (14 columns used).
HWY_INLINE void interleave_channels(const float* HWY_RESTRICT values, float* HWY_RESTRICT y) {
  const hn::Repartition<uint64_t, D> d64;
  for (int x = 0; x < 16; x += kLanes) {
    V c[kOut];
    unroll<kOut>([&](auto o) CT_UNROLLED { c[o] = hn::Load(d, values + o * 16 + x); });
    const int blocks = kLanes / 4;  // of four columns, 24 floats each; the last one has only two columns
    const auto put = [&](auto pair01, auto pair23, auto pair45, int first) CT_UNROLLED {
      const auto a = hn::BitCast(d64, pair01), b = hn::BitCast(d64, pair23), e = hn::BitCast(d64, pair45);
      const int count = first == 0 || x + kLanes < 16 ? blocks : blocks - 1;
      float* out = y + x * kOut + first * kOut;
      store_blocks(d, hn::BitCast(d, hn::InterleaveLower(d64, a, b)), out, 24, count);
      store_blocks(d, hn::BitCast(d, hn::OddEven(a, e)), out + 4, 24, count);
      store_blocks(d, hn::BitCast(d, hn::InterleaveUpper(d64, b, e)), out + 8, 24, count);
    };
    put(hn::InterleaveLower(d, c[0], c[1]), hn::InterleaveLower(d, c[2], c[3]), hn::InterleaveLower(d, c[4], c[5]), 0);
    if (kLanes > 4 || x < 12)
      put(hn::InterleaveUpper(d, c[0], c[1]), hn::InterleaveUpper(d, c[2], c[3]), hn::InterleaveUpper(d, c[4], c[5]),
          2);
  }
}

/// [6][16] of i32 -> [14][6] of bytes.
HWY_INLINE void interleave_places(const int32_t* HWY_RESTRICT places, uint8_t* HWY_RESTRICT argmax) {
  alignas(64) int32_t low[16], high[16];
  for (int x = 0; x < 16; x += kLanes) {
    VI c[kOut];
    unroll<kOut>([&](auto o) CT_UNROLLED { c[o] = hn::Load(di, places + o * 16 + x); });
    hn::Store(hn::Or(hn::Or(c[0], hn::ShiftLeft<8>(c[1])), hn::Or(hn::ShiftLeft<16>(c[2]), hn::ShiftLeft<24>(c[3]))),
              di, low + x);
    hn::Store(hn::Or(c[4], hn::ShiftLeft<8>(c[5])), di, high + x);
  }
  for (int x = 0; x < kPooled; ++x) {
    std::memcpy(argmax + x * kOut, low + x, 4);
    std::memcpy(argmax + x * kOut + 4, high + x, 2);
  }
}

HWY_INLINE void forward(const ConvReluPoolArgs& a) {
  constexpr int kCount = kWide ? 6 : 3;  // channels whose accumulators fit the registers
  alignas(64) float values[kOut * 16];
  alignas(64) int32_t places[kOut * 16];
  for (int64_t n = 0; n < a.shape.n; ++n)
    for (int py = 0; py < kPooled; ++py) {
      const float* x = a.x + n * kIn * kPlane + 2 * py * kSide;
      for (int o = 0; o < kOut; o += kCount)
        for (int px = 0; px < 16; px += kLanes)
          if (px < kPooled)
            pooled_columns<kCount>(x + 2 * px, a.w + o * kTaps, a.b + o, values + o * 16 + px, places + o * 16 + px);
      interleave_channels(values, a.y + (n * kPooled + py) * kRow);
      interleave_places(places, a.argmax + (n * kPooled + py) * kRow);
    }
}

// ---- weight gradient: every argmax adds dy times its 5 x (5*3) patch. A patch's row is 15 contiguous floats of the
// channels-last image; rows are first copied to 64-byte windows, because loads that cross cache lines cost double. Lane
// 15 of every window is 1, so that it sums the bias gradient.

constexpr int kWindows = 28, kWindowRow = kWindows * 16, kBandRows = 18;  // a band: 7 rows of argmax, 18 rows of image
constexpr int kBand = kBandRows * kWindowRow;

HWY_INLINE void copy_windows(const float* HWY_RESTRICT x, float* HWY_RESTRICT windows) {
  alignas(64) float row[kSide * kIn + 16];
  const V ones = hn::Set(d, 1.0f);
  for (int r = 0; r < kBandRows; ++r, x += kSide) {
    for (int i = 0; i < kSide; i += kLanes)
      hn::StoreInterleaved3(hn::LoadU(d, x + i), hn::LoadU(d, x + kPlane + i), hn::LoadU(d, x + 2 * kPlane + i), d,
                            row + i * kIn);
    unroll<kVecs>([&](auto v) CT_UNROLLED {
      const auto keep = hn::FirstN(d, 15 - v * kLanes < kLanes ? 15 - v * kLanes : kLanes);
      for (int i = 0; i < kWindows; ++i)
        hn::Store(hn::IfThenElse(keep, hn::LoadU(d, row + i * kIn + v * kLanes), ones), d,
                  windows + i * 16 + v * kLanes);
    });
    windows += kWindowRow;
  }
}

/// Seven rows of argmax into sums [6][5][16], channels [o, o + Count).
template <int Count>
HWY_NOINLINE void add_band(const float* HWY_RESTRICT windows, const float* HWY_RESTRICT dy,
                           const int32_t* HWY_RESTRICT offsets, float* HWY_RESTRICT sums) {
  V acc[Count][kKernel][kVecs];
  unroll<Count * kKernel * kVecs>([&](auto i) CT_UNROLLED {
    acc[i / (kKernel * kVecs)][i / kVecs % kKernel][i % kVecs] = hn::Load(d, sums + i * kLanes);
  });
  for (int p = 0; p < 7 * kRow; p += kOut)
    unroll<Count>([&](auto o) CT_UNROLLED {
      const float* window = windows + offsets[p + o];
      const V g = hn::Set(d, dy[p + o]);
      unroll<kKernel * kVecs>([&](auto i) CT_UNROLLED {
        V& sum = acc[o][i / kVecs][i % kVecs];
        sum = hn::MulAdd(g, hn::Load(d, window + i / kVecs * kWindowRow + i % kVecs * kLanes), sum);
      });
    });
  unroll<Count * kKernel * kVecs>([&](auto i) CT_UNROLLED {
    hn::Store(acc[i / (kKernel * kVecs)][i / kVecs % kKernel][i % kVecs], d, sums + i * kLanes);
  });
}

HWY_INLINE void grad_weights(const ConvReluPoolGradWArgs& a) {
  constexpr int kCount = kWide ? 6 : 1, kPlaces = 7 * kRow;  // 588 a band
  float* windows = a.workspace;                              // kBand
  float* g = windows + kBand;                                // dy, 0 where ReLU cut
  int32_t* offsets = reinterpret_cast<int32_t*>(g + 592);    // the argmax's first window in the band
  alignas(64) float sums[kOut * kKernel * 16] = {};
  alignas(64) int32_t corners[592];  // the pooling window's first place
  for (int p = 0; p < kPlaces; ++p) corners[p] = 2 * (p / kRow) * kWindowRow + 2 * (p % kRow / kOut) * 16;
  for (int p = kPlaces; p < 592; ++p) corners[p] = 0;
  const hn::Rebind<uint8_t, D> d8;
  const VI one = hn::Set(di, 1), three = hn::Set(di, 3);
  for (int64_t n = 0; n < a.shape.n; ++n)
    for (int band = 0; band < 2; ++band) {
      copy_windows(a.x + n * kIn * kPlane + band * 14 * kSide, windows);
      const int64_t first = (n * 2 + band) * kPlaces;
      for (int p = 0; p < kPlaces; p += kLanes) {
        // The last vector overlaps the one before: nothing is read past the end.
        const int q = p + kLanes <= kPlaces ? p : kPlaces - kLanes;
        const VI place = hn::PromoteTo(di, hn::LoadU(d8, a.argmax + first + q));
        const auto cut = hn::Gt(place, three);
        const VI shift = hn::Add(hn::ShiftLeft<4>(hn::And(place, one)),
                                 hn::Mul(hn::And(hn::ShiftRight<1>(place), one), hn::Set(di, kWindowRow)));
        hn::StoreU(hn::Add(hn::LoadU(di, corners + q), shift), di, offsets + q);
        hn::StoreU(hn::IfThenZeroElse(hn::RebindMask(d, cut), hn::LoadU(d, a.dy + first + q)), d, g + q);
      }
      for (int o = 0; o < kOut; o += kCount) add_band<kCount>(windows, g + o, offsets + o, sums + o * kKernel * 16);
    }
  for (int o = 0; o < kOut; ++o) {
    for (int ky = 0; ky < kKernel; ++ky)
      std::memcpy(a.dw + o * kTaps + ky * 15, sums + (o * kKernel + ky) * 16, 15 * sizeof(float));
    a.db[o] = sums[o * kKernel * 16 + 15];
  }
}
static_assert(kBand + 2 * 592 <= kFastPathWorkspace);

#endif
}  // namespace ct::cpu::HWY_NAMESPACE::image
HWY_AFTER_NAMESPACE();
#endif
