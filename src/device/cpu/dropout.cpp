#include "device/cpu/kernels/dropout.h"

#include "device/cpu/by_type.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/layers.h"

namespace ct::cpu {

std::unique_ptr<Kernel> prepare(const Dropout& op, const Shapes& shape) {
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return one_call<DropoutArgs<T>>(dropout, op,
                                    {.n = shape(op.x).stored(),
                                     .number = op.number,
                                     .below = keep_below(op.p),
                                     .scale = static_cast<float>(1 / (1 - op.p))});
  });
}

}  // namespace ct::cpu
