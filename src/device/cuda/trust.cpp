#include "kernels/trust.h"

#include "device/cuda.h"
#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"
#include "plan/flat.h"

namespace ct::cuda {

namespace k = kernels;

static_assert(sizeof(k::MomentsChunk) == kCudaMomentsRowBytes && sizeof(k::TrustTensor) == kCudaTensorRowBytes);
static_assert(kChunk <= k::kMomentsChunk);

std::unique_ptr<Kernel> prepare(const LambMoments& op, const Context& in) {
  return make_plain_kernel(in.label(), [op, &backend = in.backend, stream = in.stream()](const Operands& at) {
    std::vector<k::MomentsChunk> chunks;
    for (const LambMoments::Slice& s : op.slices)
      for (const SquareSums::Chunk& c : s.chunks)
        chunks.push_back({.masters = at.f32(s.masters) + c.range.begin,
                          .grads = at.f32(s.grads) + c.range.begin,
                          .exp_avg = at.f32(s.exp_avg) + c.range.begin,
                          .exp_avg_sq = at.f32(s.exp_avg_sq) + c.range.begin,
                          .n = c.range.size(),
                          .sum = c.sum,
                          .weight_decay = s.weight_decay});
    const auto table = std::make_shared<Memory>(backend.upload(chunks));
    const k::LambMomentsArgs args{.chunks = reinterpret_cast<const k::MomentsChunk*>(table->data()),
                                  .count = static_cast<int64_t>(chunks.size()),
                                  .eps = op.eps,
                                  .scalars = at.at<const StepScalars>(op.scalars),
                                  .weight_sums = at.at<double>(op.weight_sums),
                                  .update_sums = at.at<double>(op.update_sums)};
    return [=] {
      static_cast<void>(table);  // lives as long as what reads it
      CT_CUDA(k::lamb_moments(args, stream));
    };
  });
}

std::unique_ptr<Kernel> prepare(const TrustRatios& op, const Context& in) {
  std::vector<k::TrustTensor> tensors;
  for (const TrustRatios::Tensor& t : op.tensors)
    tensors.push_back({.begin = t.chunks.begin,
                       .end = t.chunks.end,
                       .weight_decay = t.weight_decay,
                       .lr_scale = t.lr_scale,
                       .adapts = t.adapts});
  const auto table = std::make_shared<Memory>(in.backend.upload(tensors));
  return make_plain_kernel(in.label(), [op, table, stream = in.stream()](const Operands& at) {
    const k::TrustRatiosArgs args{.tensors = reinterpret_cast<const k::TrustTensor*>(table->data()),
                                  .count = static_cast<int64_t>(op.tensors.size()),
                                  .weight_sums = at.at<const double>(op.weight_sums),
                                  .update_sums = at.at<const double>(op.update_sums),
                                  .scalars = at.at<const StepScalars>(op.scalars),
                                  .coefficient = op.coefficient,
                                  .eps = op.eps,
                                  .least = op.least,
                                  .most = op.most,
                                  .of_gradients = op.of_gradients,
                                  .by_rate = op.by_rate,
                                  .ratios = at.f32(op.ratios)};
    return [=] {
      static_cast<void>(table);
      CT_CUDA(k::trust_ratios(args, stream));
    };
  });
}

}  // namespace ct::cuda
