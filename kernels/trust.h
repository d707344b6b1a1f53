// The computations of LARS and LAMB on whole tensors: LAMB's first pass with the sums of squares of weights and updates
// by chunk, and the trust ratios. Tables are in device memory. Functions return only errors of the launch.
#pragma once

#include "launch.h"
#include "plan/step_scalars.h"

namespace ct::kernels {

/// At most kMomentsChunk elements of one tensor; their sums are written to index `sum`.
struct MomentsChunk {
  const float *masters, *grads;
  float *exp_avg, *exp_avg_sq;
  int64_t n, sum;
  double weight_decay;
};
constexpr int64_t kMomentsChunk = 4096;

/// For each of the `count` chunks, computes Adam's moments and LAMB's update u of weights p (LambMomentsFormula of
/// graph/optimizer_rules-inl.h), and the sums of p^2 and u^2 in f64: element e goes to accumulator e % 256, in
/// ascending order, a = fma(x, x, a); accumulators are added as in square_sums (grad_norm.h). A skipped step writes
/// nothing. Moves 24 bytes per element and 72 per chunk.
struct LambMomentsArgs {
  const MomentsChunk* chunks;
  int64_t count;
  double eps;
  const StepScalars* scalars;
  double *weight_sums, *update_sums;
};
cudaError_t lamb_moments(const LambMomentsArgs& args, cudaStream_t stream);

/// A tensor and its range of sums, begin .. end - 1.
struct TrustTensor {
  int64_t begin, end;
  double weight_decay;
  float lr_scale;
  int32_t adapts;  // 0: the ratio is 1
};

/// ratios[t] = coefficient |w| / (|u| + weight_decay |w| + eps), with `by_rate` divided by lr lr_scale, at least
/// `least` and at most `most`; 1 if a norm is not above 0. It is computed in f64 and then rounded. |w| and |u| are the
/// roots of a tensor's sums, added in order; with `of_gradients` |u| is multiplied by grad_scale. A skipped step writes
/// nothing.
struct TrustRatiosArgs {
  const TrustTensor* tensors;
  int64_t count;
  const double *weight_sums, *update_sums;
  const StepScalars* scalars;
  double coefficient, eps, least, most;
  bool of_gradients, by_rate;
  float* ratios;
};
cudaError_t trust_ratios(const TrustRatiosArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
