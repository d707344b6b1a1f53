#include "kernels/sequence_pool.h"

#include "device/cuda/one_launch.h"

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
  return one_launch(in, k::sequence_pool, op, {.shape = pool_shape(in, op.x, op.score)});
}

std::unique_ptr<Kernel> prepare(const SequencePoolGrad& op, const Context& in) {
  return one_launch(in, k::sequence_pool_grad, op, {.shape = pool_shape(in, op.x, op.score)});
}

}  // namespace ct::cuda
