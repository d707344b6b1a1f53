// Optimizers: one pass over flat ranges of parameters, with the formulas of graph/optimizer_rules-inl.h.
//
// The result of an element depends only on that element, not on the range's bounds (any sharding gives the same bits).
// Pointers need only float's alignment; 64-byte aligned ranges are fastest.
#pragma once

#include <cstdint>

#include "graph/optimizer_rules.h"
#include "plan/step_scalars.h"

namespace ct::cpu {

/// A range of an optimizer's update. Moves 12 bytes per parameter, 8 for each state (4 where the rule only reads them),
/// 2 for a bf16 copy.
struct UpdateArgs {
  rules::Any rule;
  int64_t n;
  const float* grads;
  float* params;
  std::array<float*, 4> states = {};  // in the rule's order; nullptr: not kept
  uint16_t* bf16_params = nullptr;    // a copy, rounded to nearest even; nullptr: none
  double weight_decay = 0;
  float lr_scale = 1;
  const float* trust = nullptr;  // for rules that read it
};
void update(const UpdateArgs& args, const StepScalars& scalars);

/// The first pass of LAMB, for at most kSquareChunk elements: Adam's m and v, and the sums of squares of p and of m /
/// (sqrt(v) + eps) + weight_decay p, added as in sum_of_squares(). Moves 24 bytes per parameter.
struct LambMomentsArgs {
  int64_t n;
  const float *grads, *params;
  float *exp_avg, *exp_avg_sq;
  double *weight_sum, *update_sum;
  float weight_decay;
  double eps;
};
void lamb_moments(const LambMomentsArgs& args, const StepScalars& scalars);

/// Muon's directions: b = b + rest (g - b); grads = b, nesterov: b + rest (g - b). Moves 16 bytes per parameter.
struct MuonMomentumArgs {
  int64_t n;
  float *grads, *momentum_buffer;
  float gradient_scale, rest;  // 1 - momentum
  bool nesterov;
};
void muon_momentum(const MuonMomentumArgs& args);

/// y = a x + b y, rounded twice.
void scaled_sum(float a, const float* x, float b, float* y, int64_t n);

/// Exponential moving average: average = rest (params - average) + average, as a rounded difference and a fused
/// multiply-add. Moves 12 bytes per parameter.
struct EmaArgs {
  int64_t n;
  const float* params;
  float* average;
  float rest;  // 1 - decay
};
void ema(const EmaArgs& args);

}  // namespace ct::cpu
