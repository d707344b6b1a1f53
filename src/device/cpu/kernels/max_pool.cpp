#include "device/cpu/kernels/max_pool.h"

#include <algorithm>

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/max_pool.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

/// body(tag, channel) until all channels are covered.
template <class Body>
HWY_INLINE void for_channels(int64_t channels, Body&& body) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) body(d, c);
  if constexpr (kLanes > 4)
    for (; c + 4 <= channels; c += 4) body(d4, c);
  for (; c < channels; ++c) body(hn::CappedTag<float, 1>(), c);
}

/// The places of a window's line, which begins at `first`, that lie in an image's line.
struct Places {
  int64_t begin, end;
  Places(int64_t first, int64_t kernel, int64_t size)
      : begin(std::max<int64_t>(0, -first)), end(std::min(kernel, size - first)) {}
};

/// The window from (top, left) on, which may lie outside of the image in part. Kernel 0: the shape's; otherwise the
/// window lies in the image.
template <int Kernel, class T>
HWY_INLINE void pool_window(const MaxPoolShape& s, const T* image, int64_t top, int64_t left, T* y, uint8_t* argmax) {
  const int64_t kernel = Kernel > 0 ? Kernel : s.kernel;
  const Places rows(top, kernel, s.height), columns(left, kernel, s.width);
  for_channels(s.channels, [&](auto dv, int64_t c) CT_UNROLLED {
    const hn::RebindToSigned<decltype(dv)> di;
    const hn::Rebind<uint8_t, decltype(dv)> d8;
    const auto pixel = [&](int64_t row, int64_t column) CT_UNROLLED {
      return load(dv, image + ((top + row) * s.width + left + column) * s.channels + c);
    };
    const int64_t first_row = Kernel > 0 ? 0 : rows.begin, first_column = Kernel > 0 ? 0 : columns.begin;
    auto best = pixel(first_row, first_column);
    auto place = hn::Set(di, static_cast<int32_t>(first_row * kernel + first_column));
    const auto compare = [&](int64_t row, int64_t column) CT_UNROLLED {
      const auto here = pixel(row, column);
      const auto better = hn::Gt(here, best);
      best = hn::IfThenElse(better, here, best);
      place =
          hn::IfThenElse(hn::RebindMask(di, better), hn::Set(di, static_cast<int32_t>(row * kernel + column)), place);
    };
    if constexpr (Kernel > 0)
      unroll<Kernel * Kernel - 1>([&](auto i) CT_UNROLLED { compare((i + 1) / Kernel, (i + 1) % Kernel); });
    else
      for (int64_t row = rows.begin; row < rows.end; ++row)  // the first pixel, met again, is not above itself
        for (int64_t column = columns.begin; column < columns.end; ++column) compare(row, column);
    store(dv, best, y + c);
    hn::StoreU(hn::DemoteTo(d8, place), d8, argmax + c);
  });
}

template <class T>
HWY_INLINE void max_pool_pass(const MaxPoolShape& s, const T* x, T* y, uint8_t* argmax) {
  for (int64_t n = 0; n < s.n; ++n, x += s.height * s.width * s.channels)
    for (int64_t row = 0; row < s.out_height; ++row)
      for (int64_t column = 0; column < s.out_width; ++column, y += s.channels, argmax += s.channels) {
        const int64_t top = row * s.stride - s.pad, left = column * s.stride - s.pad;
        const bool whole = top >= 0 && left >= 0 && top + s.kernel <= s.height && left + s.kernel <= s.width;
        if (whole && s.kernel == 2)
          pool_window<2>(s, x, top, left, y, argmax);
        else if (whole && s.kernel == 3)
          pool_window<3>(s, x, top, left, y, argmax);
        else
          pool_window<0>(s, x, top, left, y, argmax);
      }
}
void MaxPool(const MaxPoolShape& s, const float* x, float* y, uint8_t* argmax) { max_pool_pass(s, x, y, argmax); }
void MaxPoolBf16(const MaxPoolShape& s, const uint16_t* x, uint16_t* y, uint8_t* argmax) {
  max_pool_pass(s, x, y, argmax);
}

/// The windows begin..end of a line in which a pixel lies that moves along the line.
struct WindowsOfPixel {
  int64_t kernel, stride, pad, count;
  int64_t begin = 0, end = 0;
  void move_to(int64_t pixel) {
    while (begin * stride - pad + kernel <= pixel) ++begin;
    while (end < count && end * stride - pad <= pixel) ++end;
  }
};

/// A window, and the place in it of the pixel in question.
template <class T>
struct Covering {
  const T* dy;
  const uint8_t* argmax;
  int32_t place;
};

/// Count 0: `count`.
template <int Count, class T>
HWY_INLINE void gather(int64_t channels, const Covering<T>* windows, int count, T* dx) {
  for_channels(channels, [&](auto dv, int64_t c) CT_UNROLLED {
    const hn::RebindToSigned<decltype(dv)> di;
    const hn::Rebind<uint8_t, decltype(dv)> d8;
    const auto share = [&](const Covering<T>& w) CT_UNROLLED {
      const auto place = hn::PromoteTo(di, hn::LoadU(d8, w.argmax + c));
      return hn::IfThenElseZero(hn::RebindMask(dv, hn::Eq(place, hn::Set(di, w.place))), load(dv, w.dy + c));
    };
    auto sum = share(windows[0]);
    for (int i = 1; i < (Count > 0 ? Count : count); ++i) sum = hn::Add(sum, share(windows[i]));
    store(dv, sum, dx + c);
  });
}

template <class T>
HWY_INLINE void max_pool_grad_pass(const MaxPoolShape& s, const T* dy, const uint8_t* argmax, T* dx) {
  constexpr int kMost = 15 * 15;  // windows that a pixel may lie in
  Covering<T> windows[kMost];
  const int64_t outputs = s.out_height * s.out_width * s.channels;
  for (int64_t n = 0; n < s.n; ++n, dy += outputs, argmax += outputs) {
    WindowsOfPixel rows{s.kernel, s.stride, s.pad, s.out_height};
    for (int64_t y = 0; y < s.height; ++y) {
      rows.move_to(y);
      WindowsOfPixel columns{s.kernel, s.stride, s.pad, s.out_width};
      for (int64_t x = 0; x < s.width; ++x, dx += s.channels) {
        columns.move_to(x);
        int count = 0;
        for (int64_t row = rows.begin; row < rows.end; ++row)
          for (int64_t column = columns.begin; column < columns.end; ++column) {
            const int64_t at = (row * s.out_width + column) * s.channels;
            const int64_t place_y = y - (row * s.stride - s.pad), place_x = x - (column * s.stride - s.pad);
            windows[count++] = {dy + at, argmax + at, static_cast<int32_t>(place_y * s.kernel + place_x)};
          }
        switch (count) {
          case 0:
            std::fill_n(dx, s.channels, T(0));
            break;
          case 1:
            gather<1>(s.channels, windows, count, dx);
            break;
          case 2:
            gather<2>(s.channels, windows, count, dx);
            break;
          case 4:
            gather<4>(s.channels, windows, count, dx);
            break;
          default:
            gather<0>(s.channels, windows, count, dx);
        }
      }
    }
  }
}
void MaxPoolGrad(const MaxPoolShape& s, const float* dy, const uint8_t* argmax, float* dx) {
  max_pool_grad_pass(s, dy, argmax, dx);
}
void MaxPoolGradBf16(const MaxPoolShape& s, const uint16_t* dy, const uint8_t* argmax, uint16_t* dx) {
  max_pool_grad_pass(s, dy, argmax, dx);
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(MaxPool);
HWY_EXPORT(MaxPoolBf16);
HWY_EXPORT(MaxPoolGrad);
HWY_EXPORT(MaxPoolGradBf16);

void max_pool(const MaxPoolShape& shape, const float* x, float* y, uint8_t* argmax) {
  HWY_DYNAMIC_DISPATCH(MaxPool)(shape, x, y, argmax);
}
void max_pool(const MaxPoolShape& shape, const uint16_t* x, uint16_t* y, uint8_t* argmax) {
  HWY_DYNAMIC_DISPATCH(MaxPoolBf16)(shape, x, y, argmax);
}
void max_pool_grad(const MaxPoolShape& shape, const float* dy, const uint8_t* argmax, float* dx) {
  HWY_DYNAMIC_DISPATCH(MaxPoolGrad)(shape, dy, argmax, dx);
}
void max_pool_grad(const MaxPoolShape& shape, const uint16_t* dy, const uint8_t* argmax, uint16_t* dx) {
  HWY_DYNAMIC_DISPATCH(MaxPoolGradBf16)(shape, dy, argmax, dx);
}
}  // namespace ct::cpu
#endif
