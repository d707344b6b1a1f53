// What models of tokens have beside linear layers and normalisation: attention, pooling of a sequence, dropout.
#include "device/cpu/kernels/attention.h"

#include "device/cpu/by_type.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/kernels/dropout.h"
#include "device/cpu/kernels/sequence_pool.h"
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
SequencePoolShape pool_shape(const Shape& x) { return {x[0], x[1], x[2]}; }

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

std::unique_ptr<Kernel> prepare(const SequencePool& op, const Shapes& shape) {
  const SequencePoolShape s = pool_shape(shape(op.x));
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel(sequence_pool_workspace(s) * sizeof(float), [op, s](const Operands& at, float* workspace) {
      const SequencePoolArgs<T> args{
          .shape = s, .x = at.at<T>(op.x), .score = at.at<T>(op.score), .y = at.at<T>(op.y), .workspace = workspace};
      return [args] { sequence_pool(args); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const SequencePoolGrad& op, const Shapes& shape) {
  const SequencePoolShape s = pool_shape(shape(op.x));
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel(sequence_pool_workspace(s) * sizeof(float), [op, s](const Operands& at, float* workspace) {
      const SequencePoolGradArgs<T> args{.shape = s,
                                         .x = at.at<T>(op.x),
                                         .score = at.at<T>(op.score),
                                         .dy = at.at<T>(op.dy),
                                         .dx = at.at<T>(op.dx),
                                         .dscore = at.at<T>(op.dscore),
                                         .workspace = workspace};
      return [args] { sequence_pool_grad(args); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const Dropout& op, const Shapes& shape) {
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel([op, n = shape(op.x).stored()](const Operands& at, float*) {
      const DropoutArgs<T> args{.n = n,
                                .key = at.at<DropoutKey>(op.key),
                                .number = op.number,
                                .below = keep_below(op.p),
                                .scale = static_cast<float>(1 / (1 - op.p)),
                                .x = at.at<T>(op.x),
                                .y = at.at<T>(op.y)};
      return [args] { dropout(args); };
    });
  });
}

}  // namespace ct::cpu
