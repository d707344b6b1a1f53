#include "device/cpu/kernels/dropout.h"

#include "device/cpu/by_type.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/layers.h"

namespace ct::cpu {

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
