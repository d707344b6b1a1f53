#include "kernels/attention.h"

#include "device/cuda/one_launch.h"

namespace ct::cuda {
namespace {

namespace k = kernels;

template <class Op>
k::AttentionShape attention_shape(const Op& op, const Context& in) {
  const Shape& qkv = in.shape(op.qkv);
  const int64_t width = qkv[2] / (3 * op.heads);
  if (width > k::kMostAttentionWidth)
    fail(ExitCode::usage, "a head of attention is ", width, " wide, and a GPU supports at most ",
         k::kMostAttentionWidth, "; use more heads");
  return {.type = type_of(in.dtype(op.qkv)),
          .n = qkv[0],
          .tokens = qkv[1],
          .heads = op.heads,
          .width = width,
          .mask_diagonal = op.mask_diagonal,
          .qkv_stride = qkv.stride(),
          .y_stride = Shape{1, qkv[2] / 3}.stride()};
}

}  // namespace

std::unique_ptr<Kernel> prepare(const Attention& op, const Context& in) {
  return one_launch(in, k::attention, op, {.shape = attention_shape(op, in), .scale = op.scale});
}

std::unique_ptr<Kernel> prepare(const AttentionGrad& op, const Context& in) {
  const k::AttentionShape s = attention_shape(op, in);
  return one_launch(in, k::attention_grad, op, {.shape = s, .scale = op.scale}, k::attention_grad_workspace_bytes(s));
}

}  // namespace ct::cuda
