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
    return one_call<AttentionArgs<T>>(attention, op, {.shape = s, .scale = op.scale},
                                      attention_workspace(s) * sizeof(float));
  });
}

std::unique_ptr<Kernel> prepare(const AttentionGrad& op, const Shapes& shape) {
  const AttentionShape s = attention_shape(op, shape(op.qkv));
  return by_type(shape.bf16(op.qkv), [&]<class T>(T) {
    return one_call<AttentionGradArgs<T>>(attention_grad, op, {.shape = s, .scale = op.scale},
                                          attention_grad_workspace(s) * sizeof(float));
  });
}

}  // namespace ct::cpu
