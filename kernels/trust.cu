#include "block_sum.h"
#include "optimizer_formulas.h"
#include "trust.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

__device__ __forceinline__ double add_square(float x, double sum) {
  const double value = x;
  return __fma_rn(value, value, sum);
}

/// One block per chunk.
__global__ void __launch_bounds__(kThreads) lamb_moments_kernel(LambMomentsArgs args) {
  if (args.scalars->skip != 0) return;
  const MomentsChunk chunk = args.chunks[blockIdx.x];
  const auto formula =
      LambMomentsFormula::of(args.eps, rules::coefficients_in<rules::Lamb>(args.scalars->coefficients));
  const auto scale = static_cast<float>(args.scalars->grad_scale);
  const auto weight_decay = static_cast<float>(chunk.weight_decay);
  double weights = 0, updates = 0;
  for (int64_t i = threadIdx.x; i < chunk.n; i += kThreads) {
    const float p = chunk.masters[i];
    Register m(chunk.exp_avg[i]), v(chunk.exp_avg_sq[i]);
    const Register u = formula(weight_decay, Register(chunk.grads[i] * scale), Register(p), m, v);
    chunk.exp_avg[i] = m.v;
    chunk.exp_avg_sq[i] = v.v;
    weights = add_square(p, weights);
    updates = add_square(u.v, updates);
  }
  auto* sums = shared_memory<double>();
  weights = block_sum<kThreads>(weights, sums);
  updates = block_sum<kThreads>(updates, sums + kWarps);
  if (threadIdx.x != 0) return;
  args.weight_sums[chunk.sum] = weights;
  args.update_sums[chunk.sum] = updates;
}

__device__ __forceinline__ double norm_of(const double* sums, const TrustTensor& t) {
  double total = 0;
  for (int64_t i = t.begin; i < t.end; ++i) total += sums[i];
  return ::sqrt(total);
}

/// A thread a tensor, each in a block of its own: they read thousands of sums one after the other.
__global__ void trust_ratios_kernel(TrustRatiosArgs args) {
  if (args.scalars->skip != 0) return;
  const TrustTensor tensor = args.tensors[blockIdx.x];
  double ratio = 1;
  if (tensor.adapts != 0) {
    const double weight = norm_of(args.weight_sums, tensor);
    const double update = norm_of(args.update_sums, tensor) * (args.of_gradients ? args.scalars->grad_scale : 1.0);
    if (weight > 0 && update > 0) {
      ratio = args.coefficient * weight / (update + tensor.weight_decay * weight + args.eps);
      if (args.by_rate) ratio /= args.scalars->lr * tensor.lr_scale;
      ratio = ratio < args.least ? args.least : ratio;
      ratio = ratio > args.most ? args.most : ratio;
    }
  }
  args.ratios[blockIdx.x] = static_cast<float>(ratio);
}

}  // namespace

cudaError_t lamb_moments(const LambMomentsArgs& args, cudaStream_t stream) {
  const Grid grid{
      .blocks = static_cast<unsigned>(args.count), .threads = kThreads, .shared_bytes = 2 * kWarps * sizeof(double)};
  return launch(lamb_moments_kernel, grid, stream, args);
}

cudaError_t trust_ratios(const TrustRatiosArgs& args, cudaStream_t stream) {
  const Grid grid{.blocks = static_cast<unsigned>(args.count), .threads = 1};
  return launch(trust_ratios_kernel, grid, stream, args);
}

}  // namespace ct::kernels
