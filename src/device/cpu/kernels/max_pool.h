// Maxima of windows and their gradient. Vectors along channels.
//
// Windows of kernel x kernel, a stride apart, the first `pad` outside the image; those that would not fit whole into
// the padded image are left out. Images NHWC; outputs overwritten. uint16_t is bf16. argmax (u8, so kernel <= 15) is
// the place, row by row, of the first maximum among the window's pixels that lie in the image.
#pragma once

#include <cstdint>

namespace ct::cpu {

struct MaxPoolShape {
  int64_t n, height, width, channels, out_height, out_width, kernel, stride, pad;
};
void max_pool(const MaxPoolShape& shape, const float* x, float* y, uint8_t* argmax);
void max_pool(const MaxPoolShape& shape, const uint16_t* x, uint16_t* y, uint8_t* argmax);
/// dx of a pixel: the sum of dy over the windows whose maximum it is, row by row of windows.
void max_pool_grad(const MaxPoolShape& shape, const float* dy, const uint8_t* argmax, float* dx);
void max_pool_grad(const MaxPoolShape& shape, const uint16_t* dy, const uint8_t* argmax, uint16_t* dx);

}  // namespace ct::cpu
