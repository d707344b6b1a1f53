#include "device/cpu/kernels/plain.h"

#include <algorithm>

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/plain.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

void Relu(const float* x, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(relu(hn::LoadU(d, x + i)), d, y + i);
  for (; i < n; ++i) y[i] = x[i] <= 0 ? 0 : x[i];
}

void ReluGrad(const float* y, const float* dy, float* dx, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    hn::StoreU(hn::IfThenZeroElse(hn::Le(hn::LoadU(d, y + i), hn::Zero(d)), hn::LoadU(d, dy + i)), d, dx + i);
  for (; i < n; ++i) dx[i] = y[i] <= 0 ? 0 : dy[i];
}

void MaxPool(const MaxPoolShape& s, const float* x, float* y, uint8_t* winner) {
  const int64_t c = s.channels, rows = s.height / s.size, columns = s.width / s.size;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column, y += c, winner += c)
        for (int64_t place = 0; place < s.size * s.size; ++place) {
          const float* from =
              x + ((n * s.height + row * s.size + place / s.size) * s.width + column * s.size + place % s.size) * c;
          for (int64_t i = 0; i < c; ++i) {  // simple enough for the compiler's own vectors
            const bool better = place == 0 || from[i] > y[i];
            y[i] = better ? from[i] : y[i];
            winner[i] = better ? static_cast<uint8_t>(place) : winner[i];
          }
        }
}

void MaxPoolGrad(const MaxPoolShape& s, const float* dy, const uint8_t* winner, float* dx) {
  const int64_t c = s.channels, rows = s.height / s.size, columns = s.width / s.size;
  std::fill_n(dx, s.n * s.height * s.width * c, 0.0f);
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column, dy += c, winner += c)
        for (int64_t i = 0; i < c; ++i)
          dx[((n * s.height + row * s.size + winner[i] / s.size) * s.width + column * s.size + winner[i] % s.size) * c +
             i] = dy[i];
}

/// Calls body(image, w offset, x offset, run) for every row of every output position's patch that lies in the image:
/// `run` contiguous floats of the channels-last image and of one output channel's weights.
template <class Body>
HWY_INLINE void for_patch_rows(const ConvShape& s, int64_t oy, int64_t ox, Body&& body) {
  const int64_t left = ox * s.stride - s.pad, first = std::max<int64_t>(0, -left);
  const int64_t run = (std::min(s.kernel, s.width - left) - first) * s.in_channels;
  if (run <= 0) return;
  for (int64_t ky = 0; ky < s.kernel; ++ky) {
    const int64_t y = oy * s.stride - s.pad + ky;
    if (y < 0 || y >= s.height) continue;
    body((ky * s.kernel + first) * s.in_channels, (y * s.width + left + first) * s.in_channels, run);
  }
}

const float* image(const ConvShape& s, const float* x, int64_t n, float* workspace) {
  const float* from = x + n * s.in_channels * s.height * s.width;
  if (!s.planar) return from;
  planar_to_channels_last(from, s.in_channels, s.height * s.width, workspace);
  return workspace;
}

void Conv(const ConvArgs& a) {
  const ConvShape& s = a.shape;
  const int64_t taps = s.kernel * s.kernel * s.in_channels;
  float* y = a.y;
  for (int64_t n = 0; n < s.n; ++n) {
    const float* x = image(s, a.x, n, a.workspace);
    for (int64_t oy = 0; oy < s.out_height(); ++oy)
      for (int64_t ox = 0; ox < s.out_width(); ++ox)
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
  const ConvShape& s = a.shape;
  const int64_t taps = s.kernel * s.kernel * s.in_channels;
  std::fill_n(a.dw, s.out_channels * taps, 0.0f);
  if (a.db != nullptr) std::fill_n(a.db, s.out_channels, 0.0f);
  const float* dy = a.dy;
  for (int64_t n = 0; n < s.n; ++n) {
    const float* x = image(s, a.x, n, a.workspace);
    for (int64_t oy = 0; oy < s.out_height(); ++oy)
      for (int64_t ox = 0; ox < s.out_width(); ++ox, dy += s.out_channels) {
        if (a.db != nullptr) axpy(1.0f, dy, a.db, s.out_channels);
        for (int64_t o = 0; o < s.out_channels; ++o)
          for_patch_rows(s, oy, ox, [&](int64_t w, int64_t at, int64_t run) HWY_ATTR {
            axpy(dy[o], x + at, a.dw + o * taps + w, run);
          });
      }
  }
}

void ConvGradInput(const ConvGradXArgs& a) {
  const ConvShape& s = a.shape;
  const int64_t taps = s.kernel * s.kernel * s.in_channels, size = s.height * s.width * s.in_channels;
  std::fill_n(a.dx, s.n * size, 0.0f);
  const float* dy = a.dy;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t oy = 0; oy < s.out_height(); ++oy)
      for (int64_t ox = 0; ox < s.out_width(); ++ox, dy += s.out_channels)
        for (int64_t o = 0; o < s.out_channels; ++o)
          for_patch_rows(s, oy, ox, [&](int64_t w, int64_t at, int64_t run) HWY_ATTR {
            axpy(dy[o], a.w + o * taps + w, a.dx + n * size + at, run);
          });
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(Relu);
HWY_EXPORT(ReluGrad);
HWY_EXPORT(MaxPool);
HWY_EXPORT(MaxPoolGrad);
HWY_EXPORT(Conv);
HWY_EXPORT(ConvGradWeights);
HWY_EXPORT(ConvGradInput);

void relu(const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(Relu)(x, y, n); }
void relu_grad(const float* y, const float* dy, float* dx, int64_t n) { HWY_DYNAMIC_DISPATCH(ReluGrad)(y, dy, dx, n); }
void max_pool(const MaxPoolShape& shape, const float* x, float* y, uint8_t* winner) {
  HWY_DYNAMIC_DISPATCH(MaxPool)(shape, x, y, winner);
}
void max_pool_grad(const MaxPoolShape& shape, const float* dy, const uint8_t* winner, float* dx) {
  HWY_DYNAMIC_DISPATCH(MaxPoolGrad)(shape, dy, winner, dx);
}
size_t conv2d_workspace(const ConvShape& s) { return s.planar ? s.in_channels * s.height * s.width : 0; }
void conv2d(const ConvArgs& args) { HWY_DYNAMIC_DISPATCH(Conv)(args); }
void conv2d_grad_weights(const ConvGradWArgs& args) { HWY_DYNAMIC_DISPATCH(ConvGradWeights)(args); }
void conv2d_grad_input(const ConvGradXArgs& args) { HWY_DYNAMIC_DISPATCH(ConvGradInput)(args); }
}  // namespace ct::cpu
#endif
