// What LARS and LAMB compute of whole tensors: the chunk sums of LAMB's first pass, and the ratios of trust.
#include <algorithm>
#include <cmath>

#include "device/cpu/cpu_kernel.h"
#include "device/cpu/kernels/optimizer.h"
#include "device/cpu/layers.h"
#include "plan/step_scalars.h"

namespace ct::cpu {
namespace {

/// |x|, of chunk sums in their order.
double norm_of(const double* sums, const Range& chunks) {
  double total = 0;
  for (int64_t i = chunks.begin; i < chunks.end; ++i) total += sums[i];
  return std::sqrt(total);
}

float ratio_of(const TrustRatios& op, const TrustRatios::Tensor& t, const double* weight_sums,
               const double* update_sums, const StepScalars& s) {
  if (!t.adapts) return 1;
  const double weight = norm_of(weight_sums, t.chunks);
  const double update = norm_of(update_sums, t.chunks) * (op.of_gradients ? s.grad_scale : 1);
  if (!(weight > 0) || !(update > 0)) return 1;
  double ratio = op.coefficient * weight / (update + t.weight_decay * weight + op.eps);
  if (op.by_rate) ratio /= s.lr * t.lr_scale;
  return static_cast<float>(std::min(std::max(ratio, op.least), op.most));
}

}  // namespace

std::unique_ptr<Kernel> prepare(const LambMoments& op, const Shapes&) {
  return make_kernel([op](const Operands& at, float*) {
    struct Chunk {
      LambMomentsArgs args;
      int64_t sum;
    };
    std::vector<Chunk> chunks;
    for (const LambMoments::Slice& s : op.slices)
      for (const SquareSums::Chunk& c : s.chunks) {
        Chunk& chunk = chunks.emplace_back();
        chunk.sum = c.sum;
        chunk.args.n = c.range.size();
        chunk.args.grads = at.f32(s.grads) + c.range.begin;
        chunk.args.params = at.f32(s.masters) + c.range.begin;
        chunk.args.exp_avg = at.f32(s.exp_avg) + c.range.begin;
        chunk.args.exp_avg_sq = at.f32(s.exp_avg_sq) + c.range.begin;
        chunk.args.weight_decay = static_cast<float>(s.weight_decay);
        chunk.args.eps = op.eps;
      }
    return [chunks = std::move(chunks), s = at.at<const StepScalars>(op.scalars),
            weights = at.at<double>(op.weight_sums), updates = at.at<double>(op.update_sums)]() mutable {
      if (s->skip) return;
      for (auto& [args, sum] : chunks) {
        args.weight_sum = weights + sum;
        args.update_sum = updates + sum;
        lamb_moments(args, *s);
      }
    };
  });
}

std::unique_ptr<Kernel> prepare(const TrustRatios& op, const Shapes&) {
  return make_kernel([op](const Operands& at, float*) {
    return [op, s = at.at<const StepScalars>(op.scalars), weights = at.at<const double>(op.weight_sums),
            updates = at.at<const double>(op.update_sums), ratios = at.f32(op.ratios)] {
      if (s->skip) return;
      for (size_t t = 0; t < op.tensors.size(); ++t) ratios[t] = ratio_of(op, op.tensors[t], weights, updates, *s);
    };
  });
}

}  // namespace ct::cpu
