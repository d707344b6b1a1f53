// Functions of the scalar references. A reference is templated on its scalar type: double gives the value, and
// complex<double> the gradient by a complex step, exact to rounding (Squire & Trapp, SIAM Review 1998): df/dx = Im f(x
// + ih) / h.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace ct::reference {

inline double real(double x) { return x; }
inline double real(std::complex<double> x) { return x.real(); }

constexpr double kComplexStep = 1e-30;

/// df/dx_i, where f takes a vector of complex numbers.
template <class F>
double derivative(F&& f, const std::vector<double>& x, size_t i) {
  std::vector<std::complex<double>> z(x.begin(), x.end());
  z[i] += std::complex<double>(0, kComplexStep);
  return f(z).imag() / kComplexStep;
}

}  // namespace ct::reference
