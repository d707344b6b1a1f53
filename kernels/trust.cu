#include "block_sum.h"
#include "optimizer.h"
#include "trust.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

__device__ __forceinline__ double add_square(float x, double sum) {
  const double value = x;
  return __fma_rn(value, value, sum);
}

/// A block a chunk.
__global__ void __launch_bounds__(kThreads) lamb_moments_kernel(LambMomentsArgs args) {
  if (args.scalars->skip != 0) return;
  const MomentsChunk chunk = args.chunks[blockIdx.x];
  const double b1 = args.scalars->coefficients[kBeta1], b2 = args.scalars->coefficients[kBeta2];
  const auto beta1 = static_cast<float>(b1), rest1 = static_cast<float>(1 - b1);
  const auto beta2 = static_cast<float>(b2), rest2 = static_cast<float>(1 - b2);
  const auto scale = static_cast<float>(args.scalars->grad_scale), eps = static_cast<float>(args.eps);
  const auto weight_decay = static_cast<float>(chunk.weight_decay);
  double weights = 0, updates = 0;
  for (int64_t i = threadIdx.x; i < chunk.n; i += kThreads) {
    const float p = chunk.masters[i], g = chunk.grads[i] * scale;
    const float m = __fmaf_rn(beta1, chunk.exp_avg[i], rest1 * g);
    const float v = __fmaf_rn(beta2, chunk.exp_avg_sq[i], rest2 * (g * g));
    chunk.exp_avg[i] = m;
    chunk.exp_avg_sq[i] = v;
    weights = add_square(p, weights);
    updates = add_square(__fmaf_rn(weight_decay, p, __fdiv_rn(m, __fsqrt_rn(v) + eps)), updates);
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
  return sqrt(total);
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
