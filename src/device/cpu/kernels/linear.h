// y = x * W^T + b (+ ReLU) and its gradients.
//
// Layouts: a matrix [rows][columns] has row stride padded(columns) = columns rounded up to 16 floats. Kernels rely on
// zero pads of x, w and dy and write zero pads of y, dx and dw (exactly zero for finite gradients). w, dw [out][in]; x,
// dx [n][in]; y, dy [n][out]; b, db [out]. All matrices are 64-byte aligned; outputs are overwritten. Each of the three
// products costs 2*n*in*out flops and reads or writes 4*in*out bytes of weights.
#pragma once

#include <cstdint>

namespace ct::cpu {

constexpr int64_t padded(int64_t columns) { return (columns + 15) / 16 * 16; }

struct LinearShape {
  int64_t n, in, out;
};
struct LinearArgs {
  LinearShape shape;
  const float *x, *w, *b;
  float* y;
  bool relu;
};
struct LinearGradXArgs {
  LinearShape shape;
  const float *w, *dy;
  float* dx;
};
struct LinearGradWArgs {
  LinearShape shape;
  const float *x, *dy;
  float *dw, *db;
};

void linear(const LinearArgs& args);
void linear_grad_input(const LinearGradXArgs& args);
void linear_grad_weights(const LinearGradWArgs& args);

}  // namespace ct::cpu
