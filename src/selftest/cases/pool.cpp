#include <cmath>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/reference/batch_norm.h"
#include "selftest/reference/conv.h"

namespace ct::cases {
namespace {

struct MaxPoolProblem {
  reference::Pool s;
  Doubles x, y;
  Bytes argmax;
  Shape x_shape, y_shape;

  MaxPoolProblem(const reference::Pool& pool)
      : s(pool), x_shape{s.n, s.height, s.width, s.channels}, y_shape{s.n, s.out_height(), s.out_width(), s.channels} {
    x = normal(at(x_shape.numel()), 1);
    for (double& v : x) v = std::round(v * 2) / 2 - 1;  // ties; most are negative: a pad's zero would win
    y = reference::max_pool(s, x, argmax);
  }
  int kernel() const { return static_cast<int>(s.kernel); }
  int stride() const { return static_cast<int>(s.stride); }
  int pad() const { return static_cast<int>(s.pad); }
  /// Does no pixel lie in two windows?
  bool apart() const { return s.stride >= s.kernel; }
  std::string text() const {
    return str(" ", to_string(x_shape), " by ", s.kernel, " stride ", s.stride, " pad ", s.pad);
  }
};

std::vector<MaxPoolProblem> max_pool_problems() {
  std::vector<MaxPoolProblem> problems;
  for (const reference::Pool& s :
       std::initializer_list<reference::Pool>{{4, 28, 28, 6, 2, 2},
                                              {17, 10, 10, 16, 2, 2},
                                              {2, 7, 6, 5, 2, 2},
                                              {1, 9, 10, 33, 3, 3},
                                              {3, 4, 4, 1, 4, 4},
                                              {2, 16, 16, 64, 3, 2, 1},  // the large stem's
                                              {2, 15, 16, 16, 3, 2, 1},  // windows hang over one edge, or both
                                              {1, 7, 9, 35, 3, 2, 1},
                                              {2, 8, 7, 8, 3, 2},
                                              {1, 6, 5, 5, 3, 1, 1},
                                              {1, 9, 8, 3, 5, 2, 2},
                                              {1, 11, 10, 4, 2, 3},
                                              {1, 5, 5, 2, 4, 3, 2},
                                              {2, 1, 1, 16, 3, 2, 1},
                                              {1, 20, 16, 1, 15, 4, 7}})
    problems.emplace_back(s);
  return problems;
}

}  // namespace

void add_cases(Cases& cases, Of<MaxPool>, DType type) {
  for (const MaxPoolProblem& p : max_pool_problems()) {
    Case c(type);
    const ValueId x = c.wide_in(p.x_shape, p.x), y = c.exact_out(p.y_shape, p.y);
    const ValueId argmax = c.out(p.y_shape, doubles(p.argmax), {}, DType::u8);
    cases.push_back(c.of(MaxPool{x, y, argmax, p.kernel(), p.stride(), p.pad()}, p.text()));
  }
}

void add_cases(Cases& cases, Of<MaxPoolGrad>, DType type) {
  for (const MaxPoolProblem& p : max_pool_problems()) {
    Case c(type);
    const Doubles dy = normal(type, p.y.size(), 2);
    const ValueId d = c.wide_in(p.y_shape, dy), argmax = c.in(p.y_shape, doubles(p.argmax), DType::u8);
    const Doubles expected = reference::max_pool_gradient(p.s, dy, p.argmax);
    const int64_t windows = (p.s.kernel + p.s.stride - 1) / p.s.stride;  // in a line that a pixel may lie in
    const ValueId dx =
        p.apart() ? c.exact_out(p.x_shape, expected)
                  : c.wide_out(p.x_shape, expected,
                               rounding(reference::max_pool_gradient(p.s, squares(dy), p.argmax), windows * windows));
    c.gradient(dx, p.x, [=](const auto& x) {
      Bytes unused;
      return weighted(dy, reference::max_pool(p.s, x, unused));
    });
    cases.push_back(c.of(MaxPoolGrad{d, argmax, dx, p.kernel(), p.stride(), p.pad()}, p.text()));
  }
}

void add_cases(Cases& cases, Of<AveragePool>, DType type) {
  for (const Shape& shape : image_shapes()) {
    Case c(type);
    const Doubles values = normal(type, at(shape.numel()), 1);
    const int64_t n = shape[0], pixels = shape[1] * shape[2], channels = shape[3];
    Doubles tolerance = rounding(reference::average_pool(n, pixels, channels, squares(values)), pixels);
    const ValueId x = c.wide_in(shape, values);
    const ValueId y =
        c.wide_out({n, channels}, reference::average_pool(n, pixels, channels, values), std::move(tolerance));
    cases.push_back(c.of(AveragePool{x, y}, " ", to_string(shape)));
  }
}

void add_cases(Cases& cases, Of<AveragePoolGrad>, DType type) {
  for (const Shape& shape : image_shapes()) {
    Case c(type);
    const int64_t n = shape[0], pixels = shape[1] * shape[2], channels = shape[3];
    const Doubles d = normal(type, at(n * channels), 1), x = normal(at(shape.numel()), 2);
    const Doubles expected = reference::average_pool_gradient(n, pixels, channels, d);
    Doubles tolerance = expected;
    for (double& t : tolerance) t = 2 * kEps * std::abs(t);
    const ValueId dy = c.wide_in({n, channels}, d), dx = c.wide_out(shape, expected, tolerance);
    c.gradient(dx, x, [=](const auto& v) { return weighted(d, reference::average_pool(n, pixels, channels, v)); });
    cases.push_back(c.of(AveragePoolGrad{dy, dx}, " ", to_string(shape)));
  }
}

}  // namespace ct::cases
