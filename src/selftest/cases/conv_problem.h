// A convolution to test: its sizes, operands and bounds of rounding errors.
#pragma once

#include <cmath>
#include <string>

#include "selftest/cases/case.h"
#include "selftest/reference/conv.h"

namespace ct::cases {

struct ConvProblem {
  DType type;
  reference::Conv s;
  bool planar;
  Doubles x, w, b, x_stored;  // x in NHWC
  Shape x_shape, y_shape, w_shape, b_shape;

  ConvProblem(DType type_, const reference::Conv& conv, bool is_planar, int64_t pool = 1)
      : type(type_), s(conv), planar(is_planar) {
    x_stored = normal(type, at(s.n * s.in * s.height * s.width), 1);
    x = planar ? reference::to_channels_last(x_stored, s.n, s.in, s.height * s.width) : x_stored;
    const int64_t terms = s.kernel * s.kernel * s.in;
    w = normal(type, at(s.out * terms), 2, 1 / std::sqrt(static_cast<double>(terms)));
    b = normal(at(s.out), 3, 0.2);
    x_shape = planar ? Shape{s.n, s.in, s.height, s.width} : Shape{s.n, s.height, s.width, s.in};
    y_shape = {s.n, s.out_height() / pool, s.out_width() / pool, s.out};
    w_shape = {s.out * terms};
    b_shape = {s.out};
  }
  int64_t terms() const { return s.kernel * s.kernel * s.in; }
  /// The transforms of Winograd's F(4x4, 3x3) have entries up to 8 of both signs, whose sums cancel.
  Doubles rounding_of(Doubles square_sums, int64_t count) const {
    square_sums = rounding(std::move(square_sums), count);
    if (type == DType::f32 && s.kernel == 3 && s.stride == 1)
      for (double& x : square_sums) x *= 8;
    return square_sums;
  }
  int kernel() const { return static_cast<int>(s.kernel); }
  int stride() const { return static_cast<int>(s.stride); }
  int pad() const { return static_cast<int>(s.pad); }
  std::string text() const {
    return str(" ", to_string(x_shape), planar ? " planar" : "", " -> ", to_string(y_shape), " k", s.kernel, " stride ",
               s.stride, " pad ", s.pad);
  }
};

}  // namespace ct::cases
