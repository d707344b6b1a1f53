#include "data/pictures/resize_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/pictures/resize_kernels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef CT_RESIZE_KERNELS_ONCE
#define CT_RESIZE_KERNELS_ONCE
namespace ct {
inline constexpr int kMostTaps = 5;  // pixels in 16 bytes
inline constexpr int kPixelBytes = 3, kGroup = 4, kGroupBytes = kGroup * kPixelBytes;

/// Where the taps of a pixel lie in 16 bytes: tap t's red, green and blue, each widened to 32 bits.
struct TapTable {
  alignas(16) uint8_t bytes[16];
};
constexpr std::array<TapTable, kMostTaps> kTapTables = [] {
  std::array<TapTable, kMostTaps> tables{};
  for (int t = 0; t < kMostTaps; ++t)
    for (int i = 0; i < 16; ++i)
      tables[t].bytes[i] = static_cast<uint8_t>(i % 4 == 0 && i / 4 < kPixelBytes ? kPixelBytes * t + i / 4 : 0x80);
  return tables;
}();
}  // namespace ct
#endif

HWY_BEFORE_NAMESPACE();
namespace ct::pictures::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

#if HWY_TARGET == HWY_SCALAR

uint8_t level(int32_t sum) { return static_cast<uint8_t>(std::min(sum >> kWeightBits, 255)); }

void ResizeRowsOf(const ResizeRows& a, int) {
  const size_t stride = narrow_row_bytes(a.offsets.size());
  for (size_t row = 0; row < a.rows.size(); ++row)
    for (size_t x = 0; x < a.offsets.size(); ++x)
      for (size_t c = 0; c < kPixelBytes; ++c) {
        const uint8_t* const from = a.rows[row] + a.offsets[x] + c;
        int32_t sum = kHalf;
        for (int t = 0; t < a.taps; ++t) sum += from[kPixelBytes * t] * a.weights[x * static_cast<size_t>(a.taps) + t];
        a.out[row * stride + x / kGroup * kGroupBytes + c * kGroup + x % kGroup] = level(sum);
      }
}

void BlendRowsOf(const BlendRows& a) {
  const size_t stride = narrow_row_bytes(a.pixels);
  for (size_t x = 0; x < a.pixels; ++x)
    for (size_t c = 0; c < kPixelBytes; ++c) {
      const uint8_t* const from = a.first + x / kGroup * kGroupBytes + c * kGroup + x % kGroup;
      int32_t sum = kHalf;
      for (size_t t = 0; t < a.weights.size(); ++t) sum += from[t * stride] * a.weights[t];
      a.out[c * a.plane + x] = level(sum);
    }
}

#else

// A vector holds 16 bytes of each of as many rows as fit, and then a pixel of each, as four numbers of 32 bits.
using D8 = hn::CappedTag<uint8_t, 64>;
using D32 = hn::Repartition<int32_t, D8>;
constexpr int kRows = static_cast<int>(hn::MaxLanes(D8()) / 16);
using Rows = std::array<const uint8_t*, kRows>;

template <size_t kCount>
HWY_INLINE auto load(const std::array<const uint8_t*, kCount>& rows, int offset) {
  const hn::CappedTag<uint8_t, 16> d;
  if constexpr (kCount == 1) {
    return hn::LoadU(d, rows[0] + offset);
  } else {
    const hn::CappedTag<uint8_t, 32> pair;
    const auto low = hn::Combine(pair, hn::LoadU(d, rows[1] + offset), hn::LoadU(d, rows[0] + offset));
    if constexpr (kCount == 2) {
      return low;
    } else {
      const auto high = hn::Combine(pair, hn::LoadU(d, rows[3] + offset), hn::LoadU(d, rows[2] + offset));
      return hn::Combine(hn::CappedTag<uint8_t, 64>(), high, low);
    }
  }
}

/// One output pixel of all rows, a byte in 32 bits for each colour.
template <int kTaps>
HWY_INLINE hn::Vec<D32> pixel(const ResizeRows& a, const Rows& rows, size_t x) {
  const D8 d8;
  const D32 d32;
  auto sum = hn::Set(d32, kHalf);
  const int32_t* const weights = a.weights + x * static_cast<size_t>(a.taps);
  for (int t = 0; t < a.taps; t += kTaps) {
    const auto bytes = load(rows, a.offsets[x] + kPixelBytes * t);
#pragma GCC unroll 5
    for (int i = 0; i < kTaps; ++i) {
      const auto tap = hn::TableLookupBytesOr0(bytes, hn::LoadDup128(d8, kTapTables[i].bytes));
      sum = hn::Add(sum, hn::Mul(hn::BitCast(d32, tap), hn::Set(d32, weights[t + i])));
    }
  }
  return hn::Min(hn::ShiftRight<kWeightBits>(sum), hn::Set(d32, 255));
}

template <int kTaps>
void some_rows(const ResizeRows& a, const Rows& rows, const std::array<uint8_t*, kRows>& out) {
  const hn::CappedTag<uint8_t, 16> d;
  const size_t pixels = a.offsets.size(), last = pixels - 1;
  alignas(64) uint8_t bytes[16 * kRows];
  for (size_t x = 0; x < pixels; x += kGroup) {
    const auto first = pixel<kTaps>(a, rows, x), second = pixel<kTaps>(a, rows, std::min(x + 1, last));
    const auto third = pixel<kTaps>(a, rows, std::min(x + 2, last)),
               fourth = pixel<kTaps>(a, rows, std::min(x + 3, last));
    const auto group =
        hn::Or(hn::Or(first, hn::ShiftLeft<8>(second)), hn::Or(hn::ShiftLeft<16>(third), hn::ShiftLeft<24>(fourth)));
    hn::Store(hn::BitCast(D8(), group), D8(), bytes);
    for (int i = 0; i < kRows; ++i)  // four bytes more than a group has: the next one's
      hn::StoreU(hn::Load(d, bytes + 16 * i), d, out[static_cast<size_t>(i)] + x / kGroup * kGroupBytes);
  }
}

template <int kTaps>
void all_rows(const ResizeRows& a) {
  const size_t stride = narrow_row_bytes(a.offsets.size());
  for (size_t first = 0; first < a.rows.size(); first += kRows) {
    Rows rows;
    std::array<uint8_t*, kRows> out;
    for (size_t i = 0; i < kRows; ++i) {  // behind the last row, that one again
      const size_t row = std::min(first + i, a.rows.size() - 1);
      rows[i] = a.rows[row];
      out[i] = a.out + row * stride;
    }
    some_rows<kTaps>(a, rows, out);
  }
}

void ResizeRowsOf(const ResizeRows& a, int taps_at_once) {
  switch (taps_at_once) {
    case 1:
      return all_rows<1>(a);
    case 2:
      return all_rows<2>(a);
    case 3:
      return all_rows<3>(a);
    case 4:
      return all_rows<4>(a);
    default:
      return all_rows<5>(a);
  }
}

void BlendRowsOf(const BlendRows& a) {
  const D32 d32;
  const hn::Rebind<uint8_t, D32> d8;
  const size_t lanes = hn::Lanes(d32), stride = narrow_row_bytes(a.pixels);
  const size_t groups = (a.pixels + kGroup - 1) / kGroup;
  constexpr int kAtOnce = 4;
  for (size_t at = 0; at < groups * kGroupBytes; at += kAtOnce * lanes) {
    hn::Vec<D32> sums[kAtOnce];
    for (auto& sum : sums) sum = hn::Set(d32, kHalf);
    const uint8_t* row = a.first + at;
    for (size_t t = 0; t < a.weights.size(); ++t, row += stride) {
      const auto weight = hn::Set(d32, a.weights[t]);
      for (int i = 0; i < kAtOnce; ++i)
        sums[i] = hn::Add(sums[i], hn::Mul(hn::PromoteTo(d32, hn::LoadU(d8, row + i * lanes)), weight));
    }
    for (int i = 0; i < kAtOnce; ++i)
      hn::StoreU(hn::DemoteTo(d8, hn::ShiftRight<kWeightBits>(sums[i])), d8, a.line + at + i * lanes);
  }

  // Four pixels of a colour are one number of 32 bits.
  const hn::CappedTag<uint32_t, 8> d;
  const hn::Repartition<uint8_t, decltype(d)> bytes;
  size_t group = 0;
  for (; (group + hn::Lanes(d)) * kGroup <= a.pixels; group += hn::Lanes(d)) {
    hn::Vec<decltype(d)> red, green, blue;
    hn::LoadInterleaved3(d, reinterpret_cast<const uint32_t*>(a.line + group * kGroupBytes), red, green, blue);
    uint8_t* const out = a.out + group * kGroup;
    hn::StoreU(hn::BitCast(bytes, red), bytes, out);
    hn::StoreU(hn::BitCast(bytes, green), bytes, out + a.plane);
    hn::StoreU(hn::BitCast(bytes, blue), bytes, out + 2 * a.plane);
  }
  for (; group < groups; ++group)
    for (size_t c = 0; c < kPixelBytes; ++c)
      std::memcpy(a.out + c * a.plane + group * kGroup, a.line + group * kGroupBytes + c * kGroup,
                  std::min<size_t>(kGroup, a.pixels - group * kGroup));
}

#endif  // HWY_SCALAR

}  // namespace ct::pictures::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct {
namespace pictures {
HWY_EXPORT(ResizeRowsOf);
HWY_EXPORT(BlendRowsOf);
}  // namespace pictures

namespace {
int taps_at_once(int taps) {
  const int times = (taps + kMostTaps - 1) / kMostTaps;
  return (taps + times - 1) / times;
}
}  // namespace

int padded_taps(int taps) {
  const int at_once = taps_at_once(taps);
  return (taps + at_once - 1) / at_once * at_once;
}

size_t bytes_read(int padded_taps) { return static_cast<size_t>(padded_taps) * kPixelBytes + 16; }

size_t narrow_row_bytes(size_t pixels) {
  constexpr size_t kBehind = 4, kVectors = 64;
  const size_t bytes = (pixels + kGroup - 1) / kGroup * kGroupBytes + kBehind;
  return (bytes + kVectors - 1) / kVectors * kVectors;
}

void resize_rows(const ResizeRows& args) {
  HWY_DYNAMIC_DISPATCH(pictures::ResizeRowsOf)(args, taps_at_once(args.taps));
}

void blend_rows(const BlendRows& args) { HWY_DYNAMIC_DISPATCH(pictures::BlendRowsOf)(args); }

}  // namespace ct
#endif
