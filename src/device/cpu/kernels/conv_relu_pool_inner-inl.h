// conv_relu_pool for NHWC 14x14x6 -> 16 channels, k 5: the tutorial network's second layer.
#if defined(CT_CONV_RELU_POOL_INNER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CT_CONV_RELU_POOL_INNER_INL_H_
#undef CT_CONV_RELU_POOL_INNER_INL_H_
#else
#define CT_CONV_RELU_POOL_INNER_INL_H_
#endif

#include <cstring>

#include "device/cpu/kernels/conv_relu_pool.h"
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE::inner {
#if HWY_TARGET != HWY_SCALAR

constexpr int kIn = 6, kSide = 14, kOut = 16, kKernel = 5, kPooled = 5, kPositions = kPooled * kPooled;
constexpr int kRow = kSide * kIn, kImage = kSide * kRow, kRun = kKernel * kIn;  // a patch's row: 30 contiguous floats
constexpr int kTaps = kKernel * kRun;

using DI = hn::RebindToSigned<D>;
using VI = hn::Vec<DI>;
constexpr DI di;

// ---- forward: lanes = output channels, two rows x ten columns in registers, x broadcast

/// w [16][150] -> [150][16]
HWY_INLINE void transpose_weights(const float* HWY_RESTRICT w, float* HWY_RESTRICT out) {
  const hn::Repartition<uint64_t, D4> d64;
  const auto put = [&](auto pair01, auto pair23, float* to) CT_UNROLLED {
    const auto a = hn::BitCast(d64, pair01), b = hn::BitCast(d64, pair23);
    hn::Store(hn::BitCast(d4, hn::InterleaveLower(d64, a, b)), d4, to);
    hn::Store(hn::BitCast(d4, hn::InterleaveUpper(d64, a, b)), d4, to + kOut);
  };
  for (int o = 0; o < kOut; o += 4)
    for (int i = 0; i < kTaps; i += 4) {
      const int t = i + 4 <= kTaps ? i : kTaps - 4;
      const float* from = w + o * kTaps + t;
      const auto a = hn::LoadU(d4, from), b = hn::LoadU(d4, from + kTaps), c = hn::LoadU(d4, from + 2 * kTaps),
                 e = hn::LoadU(d4, from + 3 * kTaps);
      put(hn::InterleaveLower(d4, a, b), hn::InterleaveLower(d4, c, e), out + t * kOut + o);
      put(hn::InterleaveUpper(d4, a, b), hn::InterleaveUpper(d4, c, e), out + (t + 2) * kOut + o);
    }
}

/// Adds one row of the image to the outputs that depend on it: to the upper row of windows with the weights at w, to
/// the lower row with the previous kernel row. A value of x is broadcast once for all its outputs (up to ten), because
/// with one broadcast a multiplication, loads would be the bottleneck.
template <bool Upper, bool Lower>
HWY_INLINE void add_image_row(const float* HWY_RESTRICT x, const float* HWY_RESTRICT w, V (&acc)[kPooled][4][kVecs]) {
#pragma GCC unroll 1
  for (int i = 0; i < kIn; ++i) {
    V upper[kKernel], lower[kKernel];
    unroll<kKernel>([&](auto kx) CT_UNROLLED {
      if constexpr (Upper) upper[kx] = hn::Load(d, w + (kx * kIn + i) * kOut);
      if constexpr (Lower) lower[kx] = hn::Load(d, w + (kx * kIn + i - kRun) * kOut);
    });
    unroll<kSide>([&](auto ix) CT_UNROLLED {
      const V value = hn::Set(d, x[ix * kIn + i]);
      unroll<kKernel>([&](auto kx) CT_UNROLLED {
        constexpr int column = ix - kx;
        if constexpr (column >= 0 && column < 2 * kPooled) {
          V(&window)[4][kVecs] = acc[column / 2];
          if constexpr (Upper) window[column % 2][0] = hn::MulAdd(upper[kx], value, window[column % 2][0]);
          if constexpr (Lower) window[2 + column % 2][0] = hn::MulAdd(lower[kx], value, window[2 + column % 2][0]);
        }
      });
    });
  }
}

/// Pools `Pools` windows of one row of windows.
template <int Pools>
HWY_NOINLINE void pooled_row(const float* HWY_RESTRICT x, const float* HWY_RESTRICT w, const float* HWY_RESTRICT b,
                             float* HWY_RESTRICT y, uint8_t* HWY_RESTRICT argmax) {
  V acc[Pools][4][kVecs];
  unroll<kVecs>([&](auto v) CT_UNROLLED {
    const V bias = hn::LoadU(d, b + v * kLanes);
    unroll<Pools * 4>([&](auto i) CT_UNROLLED { acc[i / 4][i % 4][v] = bias; });
  });
  if constexpr (Pools == kPooled) {
    add_image_row<true, false>(x, w, acc);
    for (int y = 1; y < kKernel; ++y) add_image_row<true, true>(x + y * kRow, w + y * kRun * kOut, acc);
    add_image_row<false, true>(x + kKernel * kRow, w + kKernel * kRun * kOut, acc);
  } else {
    for (int ky = 0; ky < kKernel; ++ky) {
      const float *upper = x + ky * kRow, *lower = upper + kRow;
      for (int j = 0; j < kRun; ++j, w += kOut) {
        V weight[kVecs];
        unroll<kVecs>([&](auto v) CT_UNROLLED { weight[v] = hn::Load(d, w + v * kLanes); });
        unroll<Pools * 4>([&](auto i) CT_UNROLLED {
          const V value = hn::Set(d, (i % 4 < 2 ? upper : lower)[(i / 4 * 2 + i % 2) * kIn + j]);
          unroll<kVecs>([&](auto v)
                            CT_UNROLLED { acc[i / 4][i % 4][v] = hn::MulAdd(weight[v], value, acc[i / 4][i % 4][v]); });
        });
      }
    }
  }
  const hn::Rebind<uint8_t, D> d8;
  const VI zero = hn::Zero(di), one = hn::Set(di, 1), two = hn::Set(di, 2), three = hn::Set(di, 3),
           four = hn::Set(di, 4);
  unroll<Pools * kVecs>([&](auto i) CT_UNROLLED {
    constexpr int p = i / kVecs, v = i % kVecs;
    const auto right0 = hn::Gt(acc[p][1][v], acc[p][0][v]), right1 = hn::Gt(acc[p][3][v], acc[p][2][v]);
    const V top = hn::IfThenElse(right0, acc[p][1][v], acc[p][0][v]);
    const V bottom = hn::IfThenElse(right1, acc[p][3][v], acc[p][2][v]);
    const auto lower = hn::Gt(bottom, top);
    const V best = hn::IfThenElse(lower, bottom, top);
    const auto cut = hn::Le(best, hn::Zero(d));
    const VI place = hn::IfThenElse(hn::RebindMask(di, lower), hn::IfThenElse(hn::RebindMask(di, right1), three, two),
                                    hn::IfThenElse(hn::RebindMask(di, right0), one, zero));
    hn::Store(hn::IfThenZeroElse(cut, best), d, y + p * kOut + v * kLanes);
    hn::Store(hn::DemoteTo(d8, hn::IfThenElse(hn::RebindMask(di, cut), four, place)), d8,
              argmax + p * kOut + v * kLanes);
  });
}

HWY_INLINE void forward(const ConvReluPoolArgs& a) {
  constexpr int kPools = kWide ? kPooled : 1;  // each has four accumulators a vector
  transpose_weights(a.w, a.workspace);
  for (int64_t n = 0; n < a.shape.n; ++n)
    for (int py = 0; py < kPooled; ++py)
      for (int px = 0; px < kPooled; px += kPools) {
        const int64_t at = ((n * kPooled + py) * kPooled + px) * kOut;
        pooled_row<kPools>(a.x + n * kImage + 2 * py * kRow + 2 * px * kIn, a.workspace, a.b, a.y + at, a.argmax + at);
      }
}

// ---- weight gradient: every argmax adds dy times its patch, whose rows are first copied to 128-byte windows, because
// loads that cross cache lines cost double. Lane 30 of every window is 1, so that it sums the bias gradient.

constexpr int kColumns = 10, kWindowRow = kColumns * 32, kWindows = kSide * kWindowRow;

HWY_INLINE void copy_windows(const float* HWY_RESTRICT x, float* HWY_RESTRICT windows) {
  const V ones = hn::Set(d, 1.0f);
  alignas(64) float last[32] = {};  // the image's last patch row: reading a whole window would go past its end
  std::memcpy(last, x + kImage - kRun, kRun * sizeof(float));
  for (int y = 0; y < kSide; ++y)
    for (int c = 0; c < kColumns; ++c, windows += 32) {
      const float* from = y == kSide - 1 && c == kColumns - 1 ? last : x + y * kRow + c * kIn;
      unroll<2 * kVecs>([&](auto v) CT_UNROLLED {
        constexpr int used = kRun - v * kLanes;
        V row = hn::LoadU(d, from + v * kLanes);
        if constexpr (used < kLanes) row = hn::IfThenElse(hn::FirstN(d, used), row, ones);
        hn::Store(row, d, windows + v * kLanes);
      });
    }
}

/// One image's argmax of one channel into sums [5][32], floats [half * 16, half * 16 + Vectors * kLanes) of every row.
template <int Vectors>
HWY_NOINLINE void add_channel(const float* HWY_RESTRICT windows, const float* HWY_RESTRICT dy,
                              const int32_t* HWY_RESTRICT offsets, float* HWY_RESTRICT sums) {
  V acc[kKernel][Vectors];
  unroll<kKernel * Vectors>([&](auto i) CT_UNROLLED {
    acc[i / Vectors][i % Vectors] = hn::Load(d, sums + i / Vectors * 32 + i % Vectors * kLanes);
  });
  for (int p = 0; p < kPositions * kOut; p += kOut) {
    const float* window = windows + offsets[p];
    const V g = hn::Set(d, dy[p]);
    unroll<kKernel * Vectors>([&](auto i) CT_UNROLLED {
      V& sum = acc[i / Vectors][i % Vectors];
      sum = hn::MulAdd(g, hn::Load(d, window + i / Vectors * kWindowRow + i % Vectors * kLanes), sum);
    });
  }
  unroll<kKernel * Vectors>([&](auto i) CT_UNROLLED {
    hn::Store(acc[i / Vectors][i % Vectors], d, sums + i / Vectors * 32 + i % Vectors * kLanes);
  });
}

HWY_INLINE void grad_weights(const ConvReluPoolGradWArgs& a) {
  constexpr int kSums = kKernel * 32;
  float* windows = a.workspace;                                          // kWindows
  float* sums = windows + kWindows;                                      // [16][5][32]
  float* g = sums + kOut * kSums;                                        // [25][16] dy, 0 where ReLU cut
  int32_t* offsets = reinterpret_cast<int32_t*>(g + kPositions * kOut);  // the argmax's first window
  static_assert(kWindows + kOut * kSums + 2 * kPositions * kOut <= kFastPathWorkspace);
  std::memset(sums, 0, kOut * kSums * sizeof(float));
  const hn::Rebind<uint8_t, D> d8;
  const VI one = hn::Set(di, 1), three = hn::Set(di, 3);
  for (int64_t n = 0; n < a.shape.n; ++n) {
    copy_windows(a.x + n * kImage, windows);
    for (int position = 0; position < kPositions; ++position) {
      const VI corner = hn::Set(di, 2 * (position / kPooled) * kWindowRow + 2 * (position % kPooled) * 32);
      for (int o = 0; o < kOut; o += kLanes) {
        const int p = position * kOut + o;
        const VI place = hn::PromoteTo(di, hn::LoadU(d8, a.argmax + n * kPositions * kOut + p));
        const VI shift = hn::Add(hn::ShiftLeft<5>(hn::And(place, one)),
                                 hn::Mul(hn::And(hn::ShiftRight<1>(place), one), hn::Set(di, kWindowRow)));
        hn::Store(hn::Add(corner, shift), di, offsets + p);
        hn::Store(
            hn::IfThenZeroElse(hn::RebindMask(d, hn::Gt(place, three)), hn::LoadU(d, a.dy + n * kPositions * kOut + p)),
            d, g + p);
      }
    }
    for (int o = 0; o < kOut; ++o)
      if constexpr (kWide) {
        add_channel<2>(windows, g + o, offsets + o, sums + o * kSums);
      } else {
        for (int half = 0; half < 32; half += 16)
          add_channel<kVecs>(windows + half, g + o, offsets + o, sums + o * kSums + half);
      }
  }
  for (int o = 0; o < kOut; ++o) {
    for (int ky = 0; ky < kKernel; ++ky)
      std::memcpy(a.dw + o * kTaps + ky * kRun, sums + o * kSums + ky * 32, kRun * sizeof(float));
    a.db[o] = sums[o * kSums + kRun];
  }
}

// ---- input gradient: the four possible patches of a pooling window's argmax cover 6 x 6 pixels: 6 rows of 36 floats,
// which stay in registers while all channels are added. 32 floats of a row are whole vectors; the last four of several
// rows share `tail` vectors. Weights are first copied to a layout in which an argmax's place selects an address.

constexpr int kPatch = 6, kEnds = 32;
constexpr int kRows = 6 * 32;  // of one channel: a row of zeros, which also ends the previous channel, and five
constexpr int kShift = kOut * kRows + 32;  // of all channels for one column of the argmax
constexpr int kEndsOfRow = kOut * kEnds;   // of all channels for one row of the argmax

/// main [2 columns][16][6][32] with a row of zeros after either column; tail [32] zeros, then [2 rows][16][32].
HWY_INLINE void spread_weights(const float* HWY_RESTRICT w, float* HWY_RESTRICT main, float* HWY_RESTRICT tail) {
  std::memset(main, 0, (2 * kShift + kEnds + 2 * kEndsOfRow) * sizeof(float));
  for (int o = 0; o < kOut; ++o)
    for (int ky = 0; ky < kKernel; ++ky) {
      const float* row = w + (o * kKernel + ky) * kRun;
      std::memcpy(main + o * kRows + (ky + 1) * 32, row, kRun * sizeof(float));
      std::memcpy(main + kShift + o * kRows + (ky + 1) * 32 + kIn, row, 26 * sizeof(float));
      std::memcpy(tail + kEnds + o * kEnds + ky * 4, row + 26, 4 * sizeof(float));
      std::memcpy(tail + kEnds + kEndsOfRow + o * kEnds + (ky + 1) * 4, row + 26, 4 * sizeof(float));
    }
}

/// Adds rows [first, first + Rows) of one pooling window's patch to dx.
template <int Rows>
HWY_NOINLINE void add_patch(const float* HWY_RESTRICT main, const float* HWY_RESTRICT tail,
                            const float* HWY_RESTRICT dy, const uint8_t* HWY_RESTRICT argmax, uint32_t active,
                            int first, float* HWY_RESTRICT dx) {
  constexpr int kRowVecs = 2 * kVecs, kTailVecs = (Rows * 4 + kLanes - 1) / kLanes;
  V acc[Rows][kRowVecs], rest[kTailVecs];
  unroll<Rows * kRowVecs>([&](auto i) CT_UNROLLED { acc[i / kRowVecs][i % kRowVecs] = hn::Zero(d); });
  unroll<kTailVecs>([&](auto i) CT_UNROLLED { rest[i] = hn::Zero(d); });
  for (; active != 0; active &= active - 1) {
    const int o = __builtin_ctz(active), place = argmax[o];
    const int column = place & 1, row = place >> 1;
    const float* rows = main + column * kShift + o * kRows + (1 - row + first) * 32;
    const float* ends = tail + (-column & (kEnds + row * kEndsOfRow + o * kEnds)) + first * 4;
    const V g = hn::Set(d, dy[o]);
    unroll<Rows * kRowVecs>([&](auto i) CT_UNROLLED {
      V& sum = acc[i / kRowVecs][i % kRowVecs];
      sum = hn::MulAdd(g, hn::Load(d, rows + i * kLanes), sum);
    });
    unroll<kTailVecs>([&](auto i) CT_UNROLLED { rest[i] = hn::MulAdd(g, hn::Load(d, ends + i * kLanes), rest[i]); });
  }
  alignas(64) float ends[kTailVecs * kLanes];
  unroll<kTailVecs>([&](auto i) CT_UNROLLED { hn::Store(rest[i], d, ends + i * kLanes); });
  unroll<Rows>([&](auto r) CT_UNROLLED {
    float* to = dx + (first + r) * kRow;
    unroll<kRowVecs>(
        [&](auto v) CT_UNROLLED { hn::StoreU(hn::Add(acc[r][v], hn::LoadU(d, to + v * kLanes)), d, to + v * kLanes); });
    hn::StoreU(hn::Add(hn::Load(d4, ends + r * 4), hn::LoadU(d4, to + 32)), d4, to + 32);
  });
}

HWY_INLINE void grad_input(const ConvReluPoolGradXArgs& a) {
  constexpr int kAtOnce = kWide ? 6 : 2;
  float *main = a.workspace, *tail = main + 2 * kShift;
  static_assert(2 * kShift + kEnds + 2 * kEndsOfRow <= kFastPathWorkspace);
  spread_weights(a.w, main, tail);
  const hn::CappedTag<uint8_t, 16> d8;
  for (int64_t n = 0; n < a.shape.n; ++n) {
    float* dx = a.dx + n * kImage;
    std::memset(dx, 0, kImage * sizeof(float));
    for (int position = 0; position < kPositions; ++position) {
      const int64_t at = (n * kPositions + position) * kOut;
      uint8_t bits[8] = {};
      hn::StoreMaskBits(d8, hn::Ne(hn::LoadU(d8, a.argmax + at), hn::Set(d8, 4)), bits);
      const uint32_t active = bits[0] | uint32_t{bits[1]} << 8;
      for (int first = 0; first < kPatch; first += kAtOnce)
        add_patch<kAtOnce>(main, tail, a.dy + at, a.argmax + at, active, first,
                           dx + 2 * (position / kPooled) * kRow + 2 * (position % kPooled) * kIn);
    }
  }
}

#endif
}  // namespace ct::cpu::HWY_NAMESPACE::inner
HWY_AFTER_NAMESPACE();
#endif
