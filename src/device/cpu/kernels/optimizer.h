// Optimizers: one pass over flat ranges of parameters, by the formulas of graph/optimizer_rules-inl.h.
//
// Results of an element depend on that element alone, never on where a range begins or ends (shards of any cut give the
// same bits). Pointers need no alignment beyond float's; 64-byte aligned ranges are fastest.
#pragma once

#include <cstdint>

#include "graph/optimizer_rules.h"
#include "plan/step_scalars.h"

namespace ct::cpu {

/// A range of an optimizer's update. Moves 12 bytes a parameter, 8 for each state (4 where the rule only reads them), 2
/// for a bf16 copy.
struct UpdateArgs {
  rules::Any rule;
  int64_t n;
  const float* grads;
  float* params;
  std::array<float*, 4> states = {};  // in the rule's order; nullptr: not kept
  uint16_t* bf16_params = nullptr;    // nullptr: none; else a copy, rounded to nearest even
  double weight_decay = 0;
  float lr_scale = 1;
  const float* trust = nullptr;  // of rules that read it
};
void update(const UpdateArgs& args, const StepScalars& scalars);

/// The first pass of LAMB: m and v as Adam's, and the sums of squares of p and of m / (sqrt(v) + eps) + weight_decay p,
/// as sum_of_squares() adds them; of at most kSquareChunk elements. 24 bytes a parameter.
struct LambMomentsArgs {
  int64_t n;
  const float *grads, *params;
  float *exp_avg, *exp_avg_sq;
  double *weight_sum, *update_sum;
  float weight_decay;
  double eps;
};
void lamb_moments(const LambMomentsArgs& args, const StepScalars& scalars);

/// Muon's directions: b = b + rest (g - b); grads = b, nesterov: b + rest (g - b). 16 bytes a parameter.
struct MuonMomentumArgs {
  int64_t n;
  float *grads, *momentum_buffer;
  float gradient_scale, rest;  // 1 - momentum
  bool nesterov;
};
void muon_momentum(const MuonMomentumArgs& args);

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
