#include "device/cpu/kernels/plain.h"

#include <algorithm>

#include "device/cpu/kernels/linear.h"
#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/plain.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE void add_pass(const T* a, const T* b, T* y, int64_t n) {
  for_elements(n, [&](auto dv, int64_t i) CT_UNROLLED { store(dv, hn::Add(load(dv, a + i), load(dv, b + i)), y + i); });
}
void AddF32(const float* a, const float* b, float* y, int64_t n) { add_pass(a, b, y, n); }
void AddBf16(const uint16_t* a, const uint16_t* b, uint16_t* y, int64_t n) { add_pass(a, b, y, n); }

template <class From, class To>
HWY_INLINE void convert_pass(const From* x, To* y, int64_t n) {
  for_elements(n, [&](auto dv, int64_t i) CT_UNROLLED { store(dv, load(dv, x + i), y + i); });
}
void ToBf16(const float* x, uint16_t* y, int64_t n) { convert_pass(x, y, n); }
void ToF32(const uint16_t* x, float* y, int64_t n) { convert_pass(x, y, n); }
void ToF16(const float* x, uint16_t* y, int64_t n) {
  for_elements(n, [&](auto dv, int64_t i) CT_UNROLLED {
    const hn::Rebind<hwy::float16_t, decltype(dv)> half;
    hn::StoreU(hn::DemoteTo(half, load(dv, x + i)), half, reinterpret_cast<hwy::float16_t*>(y + i));
  });
}

template <class T>
HWY_INLINE void average_pool_pass(const AveragePoolShape& s, const T* x, T* y) {
  const float scale = 1 / static_cast<float>(s.pixels);
  const int64_t row = padded(s.channels);
  for (int64_t n = 0; n < s.n; ++n, x += s.pixels * s.channels, y += row) {
    for_elements(s.channels, [&](auto dv, int64_t i) CT_UNROLLED {
      auto sum = hn::Zero(dv);
      for (int64_t p = 0; p < s.pixels; ++p) sum = hn::Add(sum, load(dv, x + p * s.channels + i));
      store(dv, hn::Mul(sum, hn::Set(dv, scale)), y + i);
    });
    std::fill(y + s.channels, y + row, T(0));
  }
}
void AveragePool(const AveragePoolShape& s, const float* x, float* y) { average_pool_pass(s, x, y); }
void AveragePoolBf16(const AveragePoolShape& s, const uint16_t* x, uint16_t* y) { average_pool_pass(s, x, y); }

template <class T>
HWY_INLINE void average_pool_grad_pass(const AveragePoolShape& s, const T* dy, T* dx) {
  const float scale = 1 / static_cast<float>(s.pixels);
  for (int64_t n = 0; n < s.n; ++n, dx += s.pixels * s.channels, dy += padded(s.channels))
    for_elements(s.channels, [&](auto dv, int64_t i) CT_UNROLLED {
      const auto share = hn::Mul(load(dv, dy + i), hn::Set(dv, scale));
      for (int64_t p = 0; p < s.pixels; ++p) store(dv, share, dx + p * s.channels + i);
    });
}
void AveragePoolGrad(const AveragePoolShape& s, const float* dy, float* dx) { average_pool_grad_pass(s, dy, dx); }
void AveragePoolGradBf16(const AveragePoolShape& s, const uint16_t* dy, uint16_t* dx) {
  average_pool_grad_pass(s, dy, dx);
}

/// Calls body(image, w offset, x offset, run) for every row of every output position's patch that lies in the image:
/// `run` contiguous floats of the channels-last image and of one output channel's weights.
template <class Body>
HWY_INLINE void for_patch_rows(const ConvDims& s, int64_t oy, int64_t ox, Body&& body) {
  const int64_t left = ox * s.stride - s.pad, first = std::max<int64_t>(0, -left);
  const int64_t run = (std::min(s.kernel, s.in_w - left) - first) * s.in_channels;
  if (run <= 0) return;
  for (int64_t ky = 0; ky < s.kernel; ++ky) {
    const int64_t y = oy * s.stride - s.pad + ky;
    if (y < 0 || y >= s.in_h) continue;
    body((ky * s.kernel + first) * s.in_channels, (y * s.in_w + left + first) * s.in_channels, run);
  }
}

const float* image(const ConvDims& s, const float* x, int64_t n, float* workspace) {
  const float* from = x + n * s.in_channels * s.in_h * s.in_w;
  if (!s.planar) return from;
  planar_to_channels_last(from, s.in_channels, s.in_h * s.in_w, workspace);
  return workspace;
}

void Conv(const ConvArgs& a) {
  const ConvDims& s = a.dims;
  const int64_t taps = s.kernel * s.kernel * s.in_channels;
  float* y = a.y;
  for (int64_t n = 0; n < s.n; ++n) {
    const float* x = image(s, a.x, n, a.workspace);
    for (int64_t oy = 0; oy < s.out_h; ++oy)
      for (int64_t ox = 0; ox < s.out_w; ++ox)
        for (int64_t o = 0; o < s.out_channels; ++o) {
          float sum = a.b == nullptr ? 0.0f : a.b[o];
          for_patch_rows(s, oy, ox, [&](int64_t w, int64_t at, int64_t run) HWY_ATTR {
            sum += dot(x + at, a.w + o * taps + w, run);
          });
          *y++ = sum;
        }
  }
}

void ConvGradWeights(const ConvGradWArgs& a) {
  const ConvDims& s = a.dims;
  const int64_t taps = s.kernel * s.kernel * s.in_channels;
  std::fill_n(a.dw, s.out_channels * taps, 0.0f);
  if (a.db != nullptr) std::fill_n(a.db, s.out_channels, 0.0f);
  const float* dy = a.dy;
  for (int64_t n = 0; n < s.n; ++n) {
    const float* x = image(s, a.x, n, a.workspace);
    for (int64_t oy = 0; oy < s.out_h; ++oy)
      for (int64_t ox = 0; ox < s.out_w; ++ox, dy += s.out_channels) {
        if (a.db != nullptr) axpy(1.0f, dy, a.db, s.out_channels);
        for (int64_t o = 0; o < s.out_channels; ++o)
          for_patch_rows(s, oy, ox, [&](int64_t w, int64_t at, int64_t run) HWY_ATTR {
            axpy(dy[o], x + at, a.dw + o * taps + w, run);
          });
      }
  }
}

void ConvGradInput(const ConvGradXArgs& a) {
  const ConvDims& s = a.dims;
  const int64_t taps = s.kernel * s.kernel * s.in_channels, size = s.in_h * s.in_w * s.in_channels;
  std::fill_n(a.dx, s.n * size, 0.0f);
  const float* dy = a.dy;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t oy = 0; oy < s.out_h; ++oy)
      for (int64_t ox = 0; ox < s.out_w; ++ox, dy += s.out_channels)
        for (int64_t o = 0; o < s.out_channels; ++o)
          for_patch_rows(s, oy, ox, [&](int64_t w, int64_t at, int64_t run) HWY_ATTR {
            axpy(dy[o], a.w + o * taps + w, a.dx + n * size + at, run);
          });
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(AddF32);
HWY_EXPORT(AddBf16);
HWY_EXPORT(ToBf16);
HWY_EXPORT(ToF32);
HWY_EXPORT(ToF16);
HWY_EXPORT(AveragePool);
HWY_EXPORT(AveragePoolBf16);
HWY_EXPORT(AveragePoolGrad);
HWY_EXPORT(AveragePoolGradBf16);
HWY_EXPORT(Conv);
HWY_EXPORT(ConvGradWeights);
HWY_EXPORT(ConvGradInput);

void add(const float* a, const float* b, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(AddF32)(a, b, y, n); }
void add(const uint16_t* a, const uint16_t* b, uint16_t* y, int64_t n) { HWY_DYNAMIC_DISPATCH(AddBf16)(a, b, y, n); }
void convert(const float* x, uint16_t* y, int64_t n) { HWY_DYNAMIC_DISPATCH(ToBf16)(x, y, n); }
void convert(const uint16_t* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(ToF32)(x, y, n); }
void convert_to_f16(const float* x, uint16_t* y, int64_t n) { HWY_DYNAMIC_DISPATCH(ToF16)(x, y, n); }
void average_pool(const AveragePoolShape& s, const float* x, float* y) { HWY_DYNAMIC_DISPATCH(AveragePool)(s, x, y); }
void average_pool(const AveragePoolShape& s, const uint16_t* x, uint16_t* y) {
  HWY_DYNAMIC_DISPATCH(AveragePoolBf16)(s, x, y);
}
void average_pool_grad(const AveragePoolShape& s, const float* dy, float* dx) {
  HWY_DYNAMIC_DISPATCH(AveragePoolGrad)(s, dy, dx);
}
void average_pool_grad(const AveragePoolShape& s, const uint16_t* dy, uint16_t* dx) {
  HWY_DYNAMIC_DISPATCH(AveragePoolGradBf16)(s, dy, dx);
}
size_t conv2d_workspace(const ConvDims& d) { return d.planar ? d.in_channels * d.in_h * d.in_w : 0; }
void conv2d(const ConvArgs& args) { HWY_DYNAMIC_DISPATCH(Conv)(args); }
void conv2d_grad_weights(const ConvGradWArgs& args) { HWY_DYNAMIC_DISPATCH(ConvGradWeights)(args); }
void conv2d_grad_input(const ConvGradXArgs& args) { HWY_DYNAMIC_DISPATCH(ConvGradInput)(args); }
}  // namespace ct::cpu
#endif
