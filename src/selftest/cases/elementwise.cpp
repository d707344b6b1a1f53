#include <limits>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/cases/gelu.h"
#include "selftest/reference/dense.h"

namespace ct::cases {
namespace {

const std::vector<Shape>& plain_shapes() {
  static const std::vector<Shape> shapes{{4, 28, 28, 6}, {1, 3, 5, 7}, {17, 84}, {3, 10}, {1, 1}, {77}, {2, 3, 9}};
  return shapes;
}

}  // namespace

void add_cases(Cases& cases, Of<Relu>, DType type) {
  for (const Shape& shape : plain_shapes())
    for (const bool broken : {false, true}) {
      Case c(type);
      Doubles values = normal(type, at(shape.numel()), 1);
      values.front() = 0;
      Doubles expected = reference::relu(values);
      if (broken) values.back() = expected.back() = std::numeric_limits<double>::quiet_NaN();
      const ValueId x = c.wide_in(shape, values), y = c.exact_out(shape, expected);
      cases.push_back(c.of(Relu{x, y}, " ", to_string(shape), broken ? " with NaN" : ""));
    }
}

void add_cases(Cases& cases, Of<ReluGrad>, DType type) {
  for (const Shape& shape : plain_shapes()) {
    Case c(type);
    const Doubles x = normal(type, at(shape.numel()), 1), y = reference::relu(x), dy = normal(type, y.size(), 2);
    const ValueId result = c.wide_in(shape, y), d = c.wide_in(shape, dy),
                  dx = c.exact_out(shape, reference::relu_gradient(y, dy));
    c.gradient(dx, x, [=](const auto& v) { return weighted(dy, reference::relu(v)); });
    cases.push_back(c.of(ReluGrad{result, d, dx}, " ", to_string(shape)));
  }
}

void add_cases(Cases& cases, Of<Gelu>, DType type) {
  for (const Shape& shape : plain_shapes())
    for (const bool broken : {false, true}) {
      Case c(type);
      Doubles values = normal(type, at(shape.numel()), 1, 3), tolerance;
      values.front() = 0;
      Doubles expected = reference::gelu(values);
      for (const double v : values) tolerance.push_back(gelu_tolerance(v));
      if (broken) values.back() = expected.back() = std::numeric_limits<double>::quiet_NaN();
      const ValueId x = c.wide_in(shape, values), y = c.wide_out(shape, expected, tolerance);
      cases.push_back(c.of(Gelu{x, y}, " ", to_string(shape), broken ? " with NaN" : ""));
    }
}

void add_cases(Cases& cases, Of<GeluGrad>, DType type) {
  for (const Shape& shape : plain_shapes()) {
    Case c(type);
    const Doubles x = normal(type, at(shape.numel()), 1, 3), dy = normal(type, x.size(), 2);
    Doubles tolerance;
    for (size_t i = 0; i < x.size(); ++i) tolerance.push_back(std::abs(dy[i]) * gelu_gradient_tolerance());
    const ValueId before = c.wide_in(shape, x), d = c.wide_in(shape, dy),
                  dx = c.wide_out(shape, reference::gelu_gradient(x, dy), tolerance);
    c.gradient(dx, x, [=](const auto& v) { return weighted(dy, reference::gelu(v)); });
    cases.push_back(c.of(GeluGrad{before, d, dx}, " ", to_string(shape)));
  }
}

void add_cases(Cases& cases, Of<Flatten>, DType type) {
  for (const Shape& shape : image_shapes()) {
    Case c(type);
    const Doubles values = normal(type, at(shape.numel()), 1);
    const ValueId x = c.wide_in(shape, values), y = c.exact_out({shape[0], shape.numel() / shape[0]}, values);
    cases.push_back(c.of(Flatten{x, y}, " ", to_string(shape)));
  }
}

void add_cases(Cases& cases, Of<FlattenGrad>, DType type) {
  for (const Shape& shape : image_shapes()) {
    Case c(type);
    const Doubles values = normal(type, at(shape.numel()), 1);
    const ValueId dy = c.wide_in({shape[0], shape.numel() / shape[0]}, values), dx = c.exact_out(shape, values);
    cases.push_back(c.of(FlattenGrad{dy, dx}, " ", to_string(shape)));
  }
}

void add_cases(Cases& cases, Of<Add>, DType type) {
  for (const Shape& shape : plain_shapes()) {
    Case c(type);
    const Doubles a = normal(type, at(shape.numel()), 1), b = normal(type, at(shape.numel()), 2);
    Doubles sum;
    for (size_t i = 0; i < a.size(); ++i) sum.push_back(static_cast<float>(a[i]) + static_cast<float>(b[i]));
    const ValueId left = c.wide_in(shape, a), right = c.wide_in(shape, b),
                  y = c.wide_out(shape, sum, Doubles(sum.size()));
    cases.push_back(c.of(Add{left, right, y}, " ", to_string(shape)));
  }
}

void add_cases(Cases& cases, Of<Cast>) {
  for (const DType type : kComputeTypes)
    for (const int64_t numel : {1, 16, 93, 5000}) {
      Case c;
      const Doubles values = normal(at(numel), 1);
      Doubles expected = values;
      for (double& v : expected) v = rounded(type, v);
      const ValueId x = c.in({numel}, values), y = c.out({numel}, expected, {}, type);
      cases.push_back(c.of(Cast{x, y}, " ", numel, " to ", name_of(type)));
    }
}

}  // namespace ct::cases
