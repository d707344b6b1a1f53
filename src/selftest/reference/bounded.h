// A number with a bound of its error in f32 arithmetic. A formula computed in this type gives the exact value and the
// bound of a device's error.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace ct::reference {

struct Bounded {
  double value = 0, error = 0;

  Bounded() = default;
  /// A number rounded to f32; the error is 0 if f32 holds it exactly.
  explicit Bounded(double x) : value(x), error(std::abs(x - static_cast<float>(x))) {}
  /// The result of an operation; `moved` is the effect of its operands' errors.
  static Bounded rounded(double value, double moved) {
    Bounded x;
    x.value = value;
    x.error = moved + std::numeric_limits<float>::epsilon() / 2 * (std::abs(value) + moved);
    return x;
  }
};

inline Bounded operator+(Bounded a, Bounded b) { return Bounded::rounded(a.value + b.value, a.error + b.error); }
inline Bounded operator-(Bounded a, Bounded b) { return Bounded::rounded(a.value - b.value, a.error + b.error); }
inline Bounded operator*(Bounded a, Bounded b) {
  return Bounded::rounded(a.value * b.value,
                          std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error);
}
inline Bounded operator/(Bounded a, Bounded b) {
  const double least = std::max(std::abs(b.value) - b.error, std::numeric_limits<double>::min());
  const double quotient = a.value / b.value;
  return Bounded::rounded(quotient, (a.error + std::abs(quotient) * b.error) / least);
}
inline Bounded sqrt(Bounded x) {
  const double root = std::sqrt(x.value);
  return Bounded::rounded(root, root - std::sqrt(std::max(x.value - x.error, 0.0)));
}
inline bool operator<(Bounded a, Bounded b) { return a.value < b.value; }
/// Undecided if the error bound exceeds the distance to 0.
inline Bounded sign(Bounded x) {
  Bounded result(static_cast<double>((x.value > 0) - (x.value < 0)));
  if (x.error > 0 && std::abs(x.value) <= x.error) result.error = 2;
  return result;
}

}  // namespace ct::reference
