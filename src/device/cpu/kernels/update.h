// One pass over flat ranges of parameters: optimizers, the gradient's norm, the gradient's tree sum.
//
// Results of an element depend on that element alone, never on where a range begins or ends (shards of any cut give the
// same bits). Pointers need no alignment beyond float's; 64-byte aligned ranges are fastest.
#pragma once

#include <cstdint>
#include <span>

namespace ct::cpu {

/// Scalars of one update; differences and powers are formed in double by the caller before they become float.
struct AdamScalars {
  float learning_rate;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float eps;
  float weight_decay;
  float bias_correction1;       // 1 / (1 - beta1^t)
  float sqrt_bias_correction2;  // 1 / sqrt(1 - beta2^t)
  float gradient_scale;         // unscaling, mean and clipping in one factor: device/cpu/step_control.h
  bool decoupled;               // AdamW; otherwise the decay is part of the gradient
};

/// g *= gradient_scale (+ weight_decay * p when not decoupled); m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
/// u = m/(1-b1^t) / (sqrt(v/(1-b2^t)) + eps); p -= lr (u + weight_decay p when decoupled).
/// Exact square root and division. 28 bytes a parameter, 30 with the bf16 copy (round to nearest even).
struct AdamArgs {
  int64_t n;
  const float* grads;
  float *params, *exp_avg, *exp_avg_sq;
  uint16_t* bf16_params;  // nullptr: none
  AdamScalars scalars;
};
void adam(const AdamArgs& args);

/// PyTorch's SGD, dampening 0: g *= gradient_scale; g += weight_decay p; buf = momentum buf + g;
/// p -= lr (nesterov ? g + momentum buf : buf). Buffers start at zero, so that the first buf is g. 20 bytes a
/// parameter.
struct SgdArgs {
  int64_t n;
  const float* grads;
  float* params;
  float* momentum_buffer;  // nullptr: no momentum
  uint16_t* bf16_params;   // nullptr: none
  float learning_rate, momentum, weight_decay, gradient_scale;
  bool nesterov;
};
void sgd(const SgdArgs& args);

constexpr int64_t kSquareChunk = 4096;

/// sums[i] = sum of squares, in f64, of elements [4096 i, 4096 (i+1)) of x; not finite where x is not. sums has
/// ceil(n / 4096) places; the caller adds them in order. 4 bytes an element.
void sum_of_squares(const float* x, int64_t n, double* sums);

/// out = levels[k] + (... (levels[1] + (levels[0] + x))): the merges of one leaf in one pass. out may be x or a level.
void tree_add(const float* x, std::span<const float* const> levels, float* out, int64_t n);

/// Denormal results and operands count as zero in the calling thread: denormal moments would double Adam's time.
void flush_denormals_in_this_thread();

}  // namespace ct::cpu
