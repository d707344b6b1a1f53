#include "kernels/sequence_pool.h"

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"

namespace ct::cuda {
namespace {

namespace k = kernels;

k::SequencePoolShape pool_shape(const Context& in, ValueId x, ValueId score) {
  const Shape& s = in.shape(x);
  if (s[1] > k::kMostPooledTokens)
    fail(ExitCode::usage, "a sequence of ", s[1], " tokens is pooled, and a GPU supports at most ",
         k::kMostPooledTokens, "; set model.convolutions to more, or use smaller images");
  return {.type = type_of(in.dtype(x)),
          .n = s[0],
          .tokens = s[1],
          .channels = s[2],
          .stride = s.stride(),
          .score_stride = in.shape(score).stride()};
}

}  // namespace

std::unique_ptr<Kernel> prepare(const SequencePool& op, const Context& in) {
  return make_plain_kernel(
      in.label(), [op, s = pool_shape(in, op.x, op.score), stream = in.stream()](const Operands& at) {
        const k::SequencePoolArgs args{.shape = s, .x = at.at(op.x), .score = at.at(op.score), .y = at.at(op.y)};
        return [=] { CT_CUDA(k::sequence_pool(args, stream)); };
      });
}

std::unique_ptr<Kernel> prepare(const SequencePoolGrad& op, const Context& in) {
  return make_plain_kernel(in.label(),
                           [op, s = pool_shape(in, op.x, op.score), stream = in.stream()](const Operands& at) {
                             const k::SequencePoolGradArgs args{.shape = s,
                                                                .x = at.at(op.x),
                                                                .score = at.at(op.score),
                                                                .dy = at.at(op.dy),
                                                                .dx = at.at(op.dx),
                                                                .dscore = at.at(op.dscore)};
                             return [=] { CT_CUDA(k::sequence_pool_grad(args, stream)); };
                           });
}

}  // namespace ct::cuda
