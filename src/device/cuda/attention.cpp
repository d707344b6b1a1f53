#include "kernels/attention.h"

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"

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
  return make_plain_kernel(in.label(), [op, s = attention_shape(op, in), stream = in.stream()](const Operands& at) {
    const k::AttentionArgs args{.shape = s,
                                .qkv = at.at(op.qkv),
                                .scale = op.scale,
                                .temperature = at.f32(op.temperature),
                                .y = at.at(op.y),
                                .log_sum_exp = at.f32(op.log_sum_exp)};
    return [=] { CT_CUDA(k::attention(args, stream)); };
  });
}

std::unique_ptr<Kernel> prepare(const AttentionGrad& op, const Context& in) {
  const k::AttentionShape s = attention_shape(op, in);
  auto bind = [op, s, stream = in.stream()](const Operands& at, std::byte* workspace) {
    const k::AttentionGradArgs args{.shape = s,
                                    .qkv = at.at(op.qkv),
                                    .scale = op.scale,
                                    .temperature = at.f32(op.temperature),
                                    .log_sum_exp = at.f32(op.log_sum_exp),
                                    .dy = at.at(op.dy),
                                    .dqkv = at.at(op.dqkv),
                                    .dtemperature = at.f32(op.dtemperature),
                                    .workspace = reinterpret_cast<float*>(workspace)};
    return [=] { CT_CUDA(k::attention_grad(args, stream)); };
  };
  return std::make_unique<CudaKernel<decltype(bind)>>(in.label(), k::attention_grad_workspace_bytes(s),
                                                      std::move(bind));
}

}  // namespace ct::cuda
