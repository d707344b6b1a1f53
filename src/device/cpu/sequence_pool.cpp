#include "device/cpu/kernels/sequence_pool.h"

#include "device/cpu/by_type.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/layers.h"

namespace ct::cpu {
namespace {

SequencePoolShape pool_shape(const Shape& x) { return {x[0], x[1], x[2]}; }

}  // namespace

std::unique_ptr<Kernel> prepare(const SequencePool& op, const Shapes& shape) {
  const SequencePoolShape s = pool_shape(shape(op.x));
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return one_call<SequencePoolArgs<T>>(sequence_pool, op, {.shape = s}, sequence_pool_workspace(s) * sizeof(float));
  });
}

std::unique_ptr<Kernel> prepare(const SequencePoolGrad& op, const Shapes& shape) {
  const SequencePoolShape s = pool_shape(shape(op.x));
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return one_call<SequencePoolGradArgs<T>>(sequence_pool_grad, op, {.shape = s},
                                             sequence_pool_workspace(s) * sizeof(float));
  });
}

}  // namespace ct::cpu
