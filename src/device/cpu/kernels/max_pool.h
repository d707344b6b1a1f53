// Max-pooling and its gradient. Vectors run along channels.
//
// A window has kernel x kernel pixels; neighbours are `stride` pixels apart, and the first one starts `pad` pixels
// outside the image. Windows that do not fit into the padded image are left out. Images are NHWC; outputs are
// overwritten. uint16_t is bf16. argmax (u8, so kernel <= 15) is the row-major place of the first maximum among the
// window's pixels in the image.
#pragma once

#include <cstdint>

namespace ct::cpu {

struct MaxPoolShape {
  int64_t n, height, width, channels, out_height, out_width, kernel, stride, pad;
};
void max_pool(const MaxPoolShape& shape, const float* x, float* y, uint8_t* argmax);
void max_pool(const MaxPoolShape& shape, const uint16_t* x, uint16_t* y, uint8_t* argmax);
/// dx of a pixel: the sum of dy over the windows whose argmax is this pixel, in row-major order of windows.
void max_pool_grad(const MaxPoolShape& shape, const float* dy, const uint8_t* argmax, float* dx);
void max_pool_grad(const MaxPoolShape& shape, const uint16_t* dy, const uint8_t* argmax, uint16_t* dx);

}  // namespace ct::cpu
