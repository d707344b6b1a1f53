#include "device/cpu/kernels/unfold.h"

#include <algorithm>

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/unfold.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

using Bytes = hn::CappedTag<uint8_t, kUnfoldSlack>;
constexpr Bytes bytes;

/// Whole vectors, in ascending order: what is written past the end is written over next.
HWY_INLINE uint8_t* copied(const uint8_t* HWY_RESTRICT from, uint8_t* HWY_RESTRICT to, int64_t count) {
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(bytes)))
    hn::StoreU(hn::LoadU(bytes, from + i), bytes, to + i);
  return to + count;
}
HWY_INLINE uint8_t* zeroed(uint8_t* to, int64_t count) {
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(bytes)))
    hn::StoreU(hn::Zero(bytes), bytes, to + i);
  return to + count;
}

/// Which of `kernel` pixels in a row, from `left` on, lie in the image.
struct Window {
  int64_t left, before, inside, after;
  Window(const ConvDims& s, int64_t ox) : left(ox * s.stride - s.pad) {
    before = std::clamp<int64_t>(-left, 0, s.kernel);
    after = std::clamp<int64_t>(left + s.kernel - s.in_w, 0, s.kernel - before);
    inside = s.kernel - before - after;
  }
};

void Unfold(const ConvDims& s, int64_t element, const uint8_t* image, uint8_t* rows) {
  const int64_t pixel = s.in_channels * element;
  for (int64_t oy = 0; oy < s.out_h; ++oy)
    for (int64_t ox = 0; ox < s.out_w; ++ox) {
      const Window w(s, ox);
      for (int64_t ky = 0; ky < s.kernel; ++ky) {
        const int64_t y = oy * s.stride - s.pad + ky;
        if (y < 0 || y >= s.in_h || w.inside == 0) {
          rows = zeroed(rows, s.kernel * pixel);
          continue;
        }
        rows = zeroed(rows, w.before * pixel);
        rows = copied(image + (y * s.in_w + w.left + w.before) * pixel, rows, w.inside * pixel);
        rows = zeroed(rows, w.after * pixel);
      }
    }
}

void Fold(const ConvDims& s, const float* rows, float* image) {
  const int64_t pixel = s.in_channels;
  std::fill_n(image, s.in_h * s.in_w * pixel, 0.0f);
  for (int64_t oy = 0; oy < s.out_h; ++oy)
    for (int64_t ox = 0; ox < s.out_w; ++ox) {
      const Window w(s, ox);
      for (int64_t ky = 0; ky < s.kernel; ++ky, rows += s.kernel * pixel) {
        const int64_t y = oy * s.stride - s.pad + ky;
        if (y < 0 || y >= s.in_h) continue;
        const float* from = rows + w.before * pixel;
        float* to = image + (y * s.in_w + w.left + w.before) * pixel;
        for_elements(w.inside * pixel, [&](auto dv, int64_t i) CT_UNROLLED {
          store(dv, hn::Add(load(dv, to + i), load(dv, from + i)), to + i);
        });
      }
    }
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(Unfold);
HWY_EXPORT(Fold);

namespace {
template <class T>
void unfold_any(const ConvDims& dims, const T* image, T* rows) {
  HWY_DYNAMIC_DISPATCH(Unfold)
  (dims, sizeof(T), reinterpret_cast<const uint8_t*>(image), reinterpret_cast<uint8_t*>(rows));
}
template <class T>
void interleave(const T* planar, int64_t channels, int64_t pixels, T* image) {
  for (int64_t p = 0; p < pixels; ++p)
    for (int64_t c = 0; c < channels; ++c) image[p * channels + c] = planar[c * pixels + p];
}
}  // namespace

void unfold(const ConvDims& dims, const float* image, float* rows) { unfold_any(dims, image, rows); }
void unfold(const ConvDims& dims, const uint16_t* image, uint16_t* rows) { unfold_any(dims, image, rows); }
void fold(const ConvDims& dims, const float* rows, float* image) { HWY_DYNAMIC_DISPATCH(Fold)(dims, rows, image); }
void to_channels_last(const float* planar, int64_t channels, int64_t pixels, float* image) {
  interleave(planar, channels, pixels, image);
}
void to_channels_last(const uint16_t* planar, int64_t channels, int64_t pixels, uint16_t* image) {
  interleave(planar, channels, pixels, image);
}
}  // namespace ct::cpu
#endif
