// Parts of test cases: random numbers, bounds of rounding errors, and a builder that adds a case's operands one by one.
#pragma once

#include <cstring>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "selftest/op_cases.h"
#include "selftest/reference/rounding.h"

namespace ct::cases {

using Doubles = std::vector<double>;
using Bytes = std::vector<uint8_t>;
using Cases = std::vector<OpCase>;
using reference::rounded;
using reference::rounding_to;

/// An operation as an argument.
template <class Op>
using Of = std::type_identity<Op>;

inline constexpr DType kComputeTypes[] = {DType::f32, DType::bf16, DType::f16};
inline constexpr double kEps = std::numeric_limits<float>::epsilon();

inline size_t at(int64_t i) { return static_cast<size_t>(i); }
inline Doubles doubles(const Bytes& v) { return {v.begin(), v.end()}; }
inline std::vector<Complex> complex(const Doubles& v) { return {v.begin(), v.end()}; }
Doubles squares(Doubles v);
/// Normally distributed numbers that float holds exactly, so that references in double have the device's operands.
Doubles normal(size_t n, uint32_t seed, double scale = 1);
/// Normally distributed numbers that the type holds exactly.
Doubles normal(DType type, size_t n, uint32_t seed, double scale = 1);
Complex weighted(const Doubles& dy, const std::vector<Complex>& y);

/// The bound of float's rounding error in a sum of `terms` products whose squares add up to `square_sums`. Partial sums
/// are about as large as the square root of square_sums, and each of `terms` roundings adds an independent error of at
/// most eps/2 of that. The factor covers about seven standard deviations.
Doubles rounding(Doubles square_sums, int64_t terms);

/// The bytes of a structure in device memory, as u8.
template <class T>
Doubles bytes_of(const T& s) {
  Bytes bytes(sizeof s);
  std::memcpy(bytes.data(), &s, sizeof s);
  return doubles(bytes);
}
template <class T>
Shape shape_of() {
  return {static_cast<int64_t>(sizeof(T))};
}

/// The end of a case's name: its type.
std::string suffix(DType type);

/// A case whose activations, gradients of activations, and weights have one type.
class Case {
 public:
  explicit Case(DType type = DType::f32) : type_(type) {}
  ValueId add(OpOperand operand);
  ValueId in(const Shape& shape, Doubles values, DType dtype = DType::f32);
  ValueId out(const Shape& shape, Doubles values, Doubles tolerance = {}, DType dtype = DType::f32);
  ValueId in_out(const Shape& shape, Doubles before, Doubles after, Doubles tolerance = {}, DType dtype = DType::f32);
  ValueId wide_in(const Shape& shape, Doubles values) { return in(shape, std::move(values), type_); }
  /// An output in the type that is copied or compared, without rounding.
  ValueId exact_out(const Shape& shape, Doubles values) { return out(shape, std::move(values), {}, type_); }
  /// An output that is finally rounded to the type; `tolerance` excludes this rounding.
  ValueId wide_out(const Shape& shape, Doubles values, Doubles tolerance);
  void gradient(ValueId id, const Doubles& x, std::function<Complex(const std::vector<Complex>&)> loss);
  template <class... Parts>
  OpCase of(ComputeOp op, const Parts&... parts) {
    return named(std::move(op), str(parts...));
  }

 private:
  OpCase named(ComputeOp&& op, const std::string& text);
  DType type_;
  OpCase case_;
};

/// Shapes of images with channels last.
const std::vector<Shape>& image_shapes();

}  // namespace ct::cases
