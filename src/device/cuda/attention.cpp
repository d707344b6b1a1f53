// What models of tokens have beside linear layers and normalisation: attention, pooling of a sequence, dropout.
#include "kernels/attention.h"

#include <cstddef>

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"
#include "graph/dropout_key.h"
#include "kernels/dropout.h"
#include "kernels/sequence_pool.h"

namespace ct::cuda {
namespace {

namespace k = kernels;

static_assert(sizeof(k::DropoutKey) == sizeof(DropoutKey) &&
              offsetof(k::DropoutKey, step) == offsetof(DropoutKey, step) &&
              offsetof(k::DropoutKey, micro_batch) == offsetof(DropoutKey, micro_batch));

template <class Op>
k::AttentionShape attention_shape(const Op& op, const Context& in) {
  const Shape& qkv = in.shape(op.qkv);
  const int64_t width = qkv[2] / (3 * op.heads);
  if (width > k::kMostAttentionWidth)
    fail(ExitCode::usage, "a head of attention is ", width, " wide, and a GPU takes ", k::kMostAttentionWidth,
         "; use more heads");
  return {.type = type_of(in.dtype(op.qkv)),
          .n = qkv[0],
          .tokens = qkv[1],
          .heads = op.heads,
          .width = width,
          .mask_diagonal = op.mask_diagonal,
          .qkv_stride = qkv.stride(),
          .y_stride = Shape{1, qkv[2] / 3}.stride()};
}

k::SequencePoolShape pool_shape(const Context& in, ValueId x, ValueId score) {
  const Shape& s = in.shape(x);
  if (s[1] > k::kMostPooledTokens)
    fail(ExitCode::usage, "a sequence of ", s[1], " tokens is pooled, and a GPU takes ", k::kMostPooledTokens,
         "; set model.convolutions to more, or take smaller images");
  return {.type = type_of(in.dtype(x)),
          .n = s[0],
          .tokens = s[1],
          .channels = s[2],
          .stride = s.stride(),
          .score_stride = in.shape(score).stride()};
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

std::unique_ptr<Kernel> prepare(const Dropout& op, const Context& in) {
  return make_plain_kernel(in.label(), [op, n = in.shape(op.x).stored(), type = type_of(in.dtype(op.x)),
                                        stream = in.stream()](const Operands& at) {
    const k::DropoutArgs args{.type = type,
                              .n = n,
                              .key = at.at<const k::DropoutKey>(op.key),
                              .number = op.number,
                              .below = keep_below(op.p),
                              .scale = static_cast<float>(1 / (1 - op.p)),
                              .x = at.at(op.x),
                              .y = at.at(op.y)};
    return [=] { CT_CUDA(k::dropout(args, stream)); };
  });
}

}  // namespace ct::cuda
