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

}  // namespace ct::cpu
