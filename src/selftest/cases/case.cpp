#include "selftest/cases/case.h"

#include <cmath>
#include <random>

namespace ct::cases {

Doubles squares(Doubles v) {
  for (double& x : v) x *= x;
  return v;
}

Doubles normal(size_t n, uint32_t seed, double scale) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> distribution(0, static_cast<float>(scale));
  Doubles values(n);
  for (double& v : values) v = distribution(engine);
  return values;
}

Doubles normal(DType type, size_t n, uint32_t seed, double scale) {
  Doubles values = normal(n, seed, scale);
  for (double& x : values) x = rounded(type, x);
  return values;
}

Complex weighted(const Doubles& dy, const std::vector<Complex>& y) {
  Complex sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
  return sum;
}

Doubles rounding(Doubles square_sums, int64_t terms) {
  for (double& x : square_sums) x = std::sqrt(x) * (4 + 2 * std::sqrt(static_cast<double>(terms))) * kEps;
  return square_sums;
}

std::string suffix(DType type) { return type == DType::f32 ? "" : str(" ", name_of(type)); }

ValueId Case::add(OpOperand operand) {
  case_.operands.push_back(std::move(operand));
  return static_cast<ValueId>(case_.operands.size() - 1);
}

ValueId Case::in(const Shape& shape, Doubles values, DType dtype) {
  return add({.value = {.shape = shape, .dtype = dtype}, .before = std::move(values)});
}

ValueId Case::out(const Shape& shape, Doubles values, Doubles tolerance, DType dtype) {
  return add(
      {.value = {.shape = shape, .dtype = dtype}, .after = std::move(values), .tolerance = std::move(tolerance)});
}

ValueId Case::in_out(const Shape& shape, Doubles before, Doubles after, Doubles tolerance, DType dtype) {
  return add({.value = {.shape = shape, .dtype = dtype},
              .before = std::move(before),
              .after = std::move(after),
              .tolerance = std::move(tolerance)});
}

ValueId Case::wide_out(const Shape& shape, Doubles values, Doubles tolerance) {
  for (size_t i = 0; i < values.size(); ++i) tolerance[i] += rounding_to(type_, std::abs(values[i]) + tolerance[i]);
  return out(shape, std::move(values), std::move(tolerance), type_);
}

void Case::gradient(ValueId id, const Doubles& x, std::function<Complex(const std::vector<Complex>&)> loss) {
  case_.gradients.push_back({id, x, std::move(loss)});
}

OpCase Case::named(ComputeOp&& op, const std::string& text) {
  case_.name = str(name_of(Op(op)), text, suffix(type_));
  case_.op = std::move(op);
  return std::move(case_);
}

const std::vector<Shape>& image_shapes() {
  static const std::vector<Shape> shapes{{4, 5, 5, 16}, {17, 7, 7, 3}, {3, 2, 3, 5}, {1, 1, 1, 1}, {2, 4, 4, 77}};
  return shapes;
}

}  // namespace ct::cases
