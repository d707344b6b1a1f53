// Optimizers: one pass over flat ranges of parameters.
//
// Results of an element depend on that element alone, never on where a range begins or ends (shards of any cut give the
// same bits). Pointers need no alignment beyond float's; 64-byte aligned ranges are fastest. Differences and powers are
// formed in double by the caller before they become float; square root and division are exact.
#pragma once

#include <cstdint>

namespace ct::cpu {

/// The arguments of any optimizer: g = gradient_scale grad.
struct UpdateArgs {
  int64_t n;
  const float* grads;
  float* params;
  uint16_t* bf16_params;  // nullptr: none; else a copy, rounded to nearest even
  float learning_rate, weight_decay;
  float gradient_scale;  // unscaling, mean and clipping in one factor: device/cpu/step_control.h
};

/// g += weight_decay p when not decoupled; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
/// u = m/(1-b1^t) / (sqrt(v/(1-b2^t)) + eps); p -= lr (u + weight_decay p when decoupled).
/// 28 bytes a parameter, 30 with the bf16 copy.
struct AdamArgs : UpdateArgs {
  float *exp_avg, *exp_avg_sq;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float eps;
  float bias_correction1;       // 1 / (1 - beta1^t)
  float sqrt_bias_correction2;  // 1 / sqrt(1 - beta2^t)
  bool decoupled;               // AdamW; otherwise the decay is part of the gradient
};
void adam(const AdamArgs& args);

/// PyTorch's SGD, dampening 0: g += weight_decay p; buf = momentum buf + g; p -= lr (nesterov ? g + momentum buf :
/// buf). Buffers start at zero, so that the first buf is g. 20 bytes a parameter.
struct SgdArgs : UpdateArgs {
  float* momentum_buffer;  // nullptr: no momentum
  float momentum;
  bool nesterov;
};
void sgd(const SgdArgs& args);

/// PyTorch's RMSprop: g += weight_decay p; v = alpha v + (1-alpha) g^2; centered: a = alpha a + (1-alpha) g and
/// max(v - a^2, 0) in place of v; u = g / (sqrt(v) + eps); with momentum: buf = momentum buf + u in place of u;
/// p -= lr u. 20 bytes a parameter, 8 more for each buffer.
struct RmsPropArgs : UpdateArgs {
  float* square_avg;
  float* momentum_buffer;  // nullptr: no momentum
  float* grad_avg;         // nullptr: not centered
  float alpha, one_minus_alpha, eps, momentum;
};
void rmsprop(const RmsPropArgs& args);

/// Lion: c = b1 m + (1-b1) g; u = sign(c) + weight_decay p; p -= lr u; m = b2 m + (1-b2) g. 20 bytes a parameter.
struct LionArgs : UpdateArgs {
  float* exp_avg;
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
};
void lion(const LionArgs& args);

/// PyTorch's Adagrad: g += weight_decay p; s = s + g^2; p -= lr g / (sqrt(s) + eps). 20 bytes a parameter.
struct AdagradArgs : UpdateArgs {
  float* sum;
  float eps;
  float rate_factor;  // of the rate, before it is rounded: the caller's
};
void adagrad(const AdagradArgs& args);

/// g = trust (g + weight_decay p), then as sgd() without decay. 20 bytes a parameter.
struct LarsArgs : UpdateArgs {
  float* momentum_buffer;  // nullptr: no momentum
  float momentum, trust;
  bool nesterov;
};
void lars(const LarsArgs& args);

/// The first pass of LAMB: m and v as Adam's, and the sums of squares of p and of m / (sqrt(v) + eps) + weight_decay p,
/// as sum_of_squares() adds them; of at most kSquareChunk elements. 24 bytes a parameter.
struct LambMomentsArgs : UpdateArgs {
  float *exp_avg, *exp_avg_sq;
  double *weight_sum, *update_sum;
  float beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
};
void lamb_moments(const LambMomentsArgs& args);
/// The second: p -= lr trust (m / (sqrt(v) + eps) + weight_decay p), where the caller's rate has trust in it. 16 bytes
/// a parameter.
struct LambArgs : UpdateArgs {
  const float *exp_avg, *exp_avg_sq;
  float eps, trust;
};
void lamb(const LambArgs& args);

/// Muon's directions: b = b + rest (g - b); grads = b, nesterov: b + rest (g - b). 16 bytes a parameter.
struct MuonMomentumArgs {
  int64_t n;
  float *grads, *momentum_buffer;
  float gradient_scale, rest;  // 1 - momentum
  bool nesterov;
};
void muon_momentum(const MuonMomentumArgs& args);
/// p -= lr (g + weight_decay p), g = grads without a factor. 12 bytes a parameter.
void muon(const UpdateArgs& args);

/// y = a x + b y in two roundings.
void scaled_sum(float a, const float* x, float b, float* y, int64_t n);

/// Exponential moving average: average = rest (params - average) + average, in one rounding after that of the
/// difference. 12 bytes a parameter.
struct EmaArgs {
  int64_t n;
  const float* params;
  float* average;
  float rest;  // 1 - decay
};
void ema(const EmaArgs& args);

}  // namespace ct::cpu
