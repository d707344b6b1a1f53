#include <cmath>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/reference/batch_norm.h"
#include "selftest/reference/conv.h"

namespace ct::cases {
namespace {

struct MaxPoolProblem {
  int64_t n, height, width, channels, size;
  Doubles x, y;
  Bytes argmax;
  Shape x_shape, y_shape;

  MaxPoolProblem(int64_t n_, int64_t h, int64_t w, int64_t c, int64_t s)
      : n(n_), height(h), width(w), channels(c), size(s), x_shape{n, h, w, c}, y_shape{n, h / s, w / s, c} {
    x = normal(at(x_shape.numel()), 1);
    for (double& v : x) v = std::round(v * 2) / 2;  // ties
    y = pool(x, argmax);
  }
  template <class T>
  std::vector<T> pool(const std::vector<T>& values, Bytes& places) const {
    return reference::max_pool(n, height, width, channels, size, values, places);
  }
};

std::vector<MaxPoolProblem> max_pool_problems() {
  return {{4, 28, 28, 6, 2}, {17, 10, 10, 16, 2}, {2, 7, 6, 5, 2}, {1, 9, 10, 33, 3}, {3, 4, 4, 1, 4}};
}

}  // namespace

void add_cases(Cases& cases, Of<MaxPool>, DType type) {
  for (const MaxPoolProblem& p : max_pool_problems()) {
    Case c(type);
    const ValueId x = c.wide_in(p.x_shape, p.x), y = c.exact_out(p.y_shape, p.y);
    const ValueId argmax = c.out(p.y_shape, doubles(p.argmax), {}, DType::u8);
    cases.push_back(c.of(MaxPool{x, y, argmax, static_cast<int>(p.size)}, " ", to_string(p.x_shape), " by ", p.size));
  }
}

void add_cases(Cases& cases, Of<MaxPoolGrad>, DType type) {
  for (const MaxPoolProblem& p : max_pool_problems()) {
    Case c(type);
    const Doubles dy = normal(type, p.y.size(), 2);
    const ValueId d = c.wide_in(p.y_shape, dy), argmax = c.in(p.y_shape, doubles(p.argmax), DType::u8);
    const ValueId dx =
        c.exact_out(p.x_shape, reference::max_pool_gradient(p.n, p.height, p.width, p.channels, p.size, dy, p.argmax));
    c.gradient(dx, p.x, [=](const auto& x) {
      Bytes unused;
      return weighted(dy, p.pool(x, unused));
    });
    cases.push_back(
        c.of(MaxPoolGrad{d, argmax, dx, static_cast<int>(p.size)}, " ", to_string(p.x_shape), " by ", p.size));
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
