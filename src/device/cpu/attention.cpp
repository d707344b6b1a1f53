#include "device/cpu/kernels/attention.h"

#include "device/cpu/by_type.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/layers.h"

namespace ct::cpu {
namespace {

template <class Op>
AttentionShape attention_shape(const Op& op, const Shape& qkv) {
  return {.n = qkv[0],
          .tokens = qkv[1],
          .heads = op.heads,
          .width = qkv[2] / (3 * op.heads),
          .mask_diagonal = op.mask_diagonal};
}

}  // namespace

std::unique_ptr<Kernel> prepare(const Attention& op, const Shapes& shape) {
  const AttentionShape s = attention_shape(op, shape(op.qkv));
  return by_type(shape.bf16(op.qkv), [&]<class T>(T) {
    return make_kernel(attention_workspace(s) * sizeof(float), [op, s](const Operands& at, float* workspace) {
      const AttentionArgs<T> args{.shape = s,
                                  .qkv = at.at<T>(op.qkv),
                                  .scale = op.scale,
                                  .temperature = at.f32(op.temperature),
                                  .y = at.at<T>(op.y),
                                  .log_sum_exp = at.f32(op.log_sum_exp),
                                  .workspace = workspace};
      return [args] { attention(args); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const AttentionGrad& op, const Shapes& shape) {
  const AttentionShape s = attention_shape(op, shape(op.qkv));
  return by_type(shape.bf16(op.qkv), [&]<class T>(T) {
    return make_kernel(attention_grad_workspace(s) * sizeof(float), [op, s](const Operands& at, float* workspace) {
      const AttentionGradArgs<T> args{.shape = s,
                                      .qkv = at.at<T>(op.qkv),
                                      .scale = op.scale,
                                      .temperature = at.f32(op.temperature),
                                      .log_sum_exp = at.f32(op.log_sum_exp),
                                      .dy = at.at<T>(op.dy),
                                      .dqkv = at.at<T>(op.dqkv),
                                      .dtemperature = at.f32(op.dtemperature),
                                      .workspace = workspace};
      return [args] { attention_grad(args); };
    });
  });
}

}  // namespace ct::cpu
