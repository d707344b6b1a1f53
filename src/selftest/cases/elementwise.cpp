#include <limits>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/reference/activation.h"

namespace ct::cases {
namespace {

const std::vector<Shape>& plain_shapes() {
  static const std::vector<Shape> shapes{{4, 28, 28, 6}, {1, 3, 5, 7}, {17, 84}, {3, 10}, {1, 1}, {77}, {2, 3, 9}};
  return shapes;
}

}  // namespace

void add_cases(Cases& cases, Of<Activate>, DType type) {
  for (const Activation kind : kActivations)
    for (const Shape& shape : plain_shapes())
      for (const bool broken : {false, true}) {
        Case c(type);
        Doubles values = normal(type, at(shape.numel()), 1, 3), tolerance;
        values.front() = 0;
        if (values.size() > 3) values[1] = 100, values[2] = -100;  // where exponentials overflow
        Doubles expected = reference::activation(kind, values);
        for (const double v : values) tolerance.push_back(reference::activation_errors(kind, v).value);
        if (broken) values.back() = expected.back() = std::numeric_limits<double>::quiet_NaN();
        const ValueId x = c.wide_in(shape, values), y = kind == Activation::relu
                                                            ? c.exact_out(shape, expected)
                                                            : c.wide_out(shape, expected, tolerance);
        cases.push_back(c.of(Activate{kind, x, y}, " ", to_string(shape), broken ? " with NaN" : ""));
      }
}

void add_cases(Cases& cases, Of<ActivationGrad>, DType type) {
  for (const Activation kind : kActivations)
    for (const Shape& shape : plain_shapes()) {
      Case c(type);
      Doubles x = normal(type, at(shape.numel()), 1, 3);
      if (x.size() > 3) x[1] = 100, x[2] = -100;
      const Doubles dy = normal(type, x.size(), 2), expected = reference::activation_gradient(kind, x, dy);
      Doubles tolerance;
      for (size_t i = 0; i < x.size(); ++i)
        tolerance.push_back(std::abs(dy[i]) * reference::activation_errors(kind, x[i]).derivative);
      const ValueId known = c.wide_in(shape, is_fused(kind) ? reference::activation(kind, x) : x),
                    d = c.wide_in(shape, dy),
                    dx = kind == Activation::relu ? c.exact_out(shape, expected)
                                                  : c.wide_out(shape, expected, tolerance);
      c.gradient(dx, x, [=](const auto& v) { return weighted(dy, reference::activation(kind, v)); });
      cases.push_back(c.of(ActivationGrad{kind, known, d, dx}, " ", to_string(shape)));
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
