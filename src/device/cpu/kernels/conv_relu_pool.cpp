#include "device/cpu/kernels/conv_relu_pool.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/conv_relu_pool.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/conv_relu_pool_image-inl.h"
#include "device/cpu/kernels/conv_relu_pool_inner-inl.h"
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

HWY_MAYBE_UNUSED bool is_image_shape(const ConvPoolShape& s) {
  return s.planar && s.in_channels == 3 && s.height == 32 && s.width == 32 && s.out_channels == 6 && s.kernel == 5;
}
HWY_MAYBE_UNUSED bool is_inner_shape(const ConvPoolShape& s) {
  return !s.planar && s.in_channels == 6 && s.height == 14 && s.width == 14 && s.out_channels == 16 && s.kernel == 5;
}

const float* channels_last(const ConvPoolShape& s, const float* x, int64_t n, float* workspace) {
  const float* image = x + n * s.in_channels * s.height * s.width;
  if (!s.planar) return image;
  planar_to_channels_last(image, s.in_channels, s.height * s.width, workspace);
  return workspace;
}

void forward_any(const ConvReluPoolArgs& a) {
  const ConvPoolShape& s = a.shape;
  const int64_t run = s.kernel * s.in_channels, row = s.width * s.in_channels;
  float* y = a.y;
  uint8_t* argmax = a.argmax;
  for (int64_t n = 0; n < s.n; ++n) {
    const float* x = channels_last(s, a.x, n, a.workspace);
    for (int64_t py = 0; py < s.pooled_height(); ++py)
      for (int64_t px = 0; px < s.pooled_width(); ++px)
        for (int64_t o = 0; o < s.out_channels; ++o, ++y, ++argmax) {
          const float* w = a.w + o * s.kernel * run;
          float best = 0;
          for (int place = 0; place < 4; ++place) {
            const float* patch = x + (2 * py + place / 2) * row + (2 * px + place % 2) * s.in_channels;
            float sum = a.b[o];
            for (int64_t ky = 0; ky < s.kernel; ++ky) sum += dot(patch + ky * row, w + ky * run, run);
            if (place == 0 || sum > best) {
              best = sum;
              *argmax = static_cast<uint8_t>(place);
            }
          }
          if (best <= 0) {
            best = 0;
            *argmax = 4;
          }
          *y = best;
        }
  }
}

void grad_weights_any(const ConvReluPoolGradWArgs& a) {
  const ConvPoolShape& s = a.shape;
  const int64_t run = s.kernel * s.in_channels, row = s.width * s.in_channels;
  std::fill_n(a.dw, s.out_channels * s.kernel * run, 0.0f);
  std::fill_n(a.db, s.out_channels, 0.0f);
  const float* dy = a.dy;
  const uint8_t* argmax = a.argmax;
  for (int64_t n = 0; n < s.n; ++n) {
    const float* x = channels_last(s, a.x, n, a.workspace);
    for (int64_t py = 0; py < s.pooled_height(); ++py)
      for (int64_t px = 0; px < s.pooled_width(); ++px)
        for (int64_t o = 0; o < s.out_channels; ++o, ++dy, ++argmax) {
          if (*argmax == 4) continue;
          const float* patch = x + (2 * py + *argmax / 2) * row + (2 * px + *argmax % 2) * s.in_channels;
          a.db[o] += *dy;
          for (int64_t ky = 0; ky < s.kernel; ++ky) axpy(*dy, patch + ky * row, a.dw + (o * s.kernel + ky) * run, run);
        }
  }
}

void grad_input_any(const ConvReluPoolGradXArgs& a) {
  const ConvPoolShape& s = a.shape;
  const int64_t run = s.kernel * s.in_channels, row = s.width * s.in_channels;
  std::fill_n(a.dx, s.n * s.height * row, 0.0f);
  const float* dy = a.dy;
  const uint8_t* argmax = a.argmax;
  for (int64_t n = 0; n < s.n; ++n) {
    float* dx = a.dx + n * s.height * row;
    for (int64_t py = 0; py < s.pooled_height(); ++py)
      for (int64_t px = 0; px < s.pooled_width(); ++px)
        for (int64_t o = 0; o < s.out_channels; ++o, ++dy, ++argmax) {
          if (*argmax == 4) continue;
          float* patch = dx + (2 * py + *argmax / 2) * row + (2 * px + *argmax % 2) * s.in_channels;
          for (int64_t ky = 0; ky < s.kernel; ++ky) axpy(*dy, a.w + (o * s.kernel + ky) * run, patch + ky * row, run);
        }
  }
}

void Forward(const ConvReluPoolArgs& a) {
#if HWY_TARGET != HWY_SCALAR
  if (is_image_shape(a.shape)) return image::forward(a);
  if (is_inner_shape(a.shape)) return inner::forward(a);
#endif
  forward_any(a);
}
void GradWeights(const ConvReluPoolGradWArgs& a) {
#if HWY_TARGET != HWY_SCALAR
  if (is_image_shape(a.shape)) return image::grad_weights(a);
  if (is_inner_shape(a.shape)) return inner::grad_weights(a);
#endif
  grad_weights_any(a);
}
void GradInput(const ConvReluPoolGradXArgs& a) {
#if HWY_TARGET != HWY_SCALAR
  if (is_inner_shape(a.shape)) return inner::grad_input(a);
#endif
  grad_input_any(a);
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(Forward);
HWY_EXPORT(GradWeights);
HWY_EXPORT(GradInput);

size_t conv_relu_pool_workspace(const ConvPoolShape& s) {
  const size_t fast_paths = kFastPathWorkspace;
  return std::max<size_t>(fast_paths, s.planar ? s.in_channels * s.height * s.width : 0);
}
void conv_relu_pool(const ConvReluPoolArgs& args) { HWY_DYNAMIC_DISPATCH(Forward)(args); }
void conv_relu_pool_grad_weights(const ConvReluPoolGradWArgs& args) { HWY_DYNAMIC_DISPATCH(GradWeights)(args); }
void conv_relu_pool_grad_input(const ConvReluPoolGradXArgs& args) { HWY_DYNAMIC_DISPATCH(GradInput)(args); }
}  // namespace ct::cpu
#endif
