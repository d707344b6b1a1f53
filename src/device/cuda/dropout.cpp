#include "kernels/dropout.h"

#include "device/cuda/one_launch.h"
#include "graph/dropout_key.h"

namespace ct::cuda {

namespace k = kernels;

std::unique_ptr<Kernel> prepare(const Dropout& op, const Context& in) {
  return one_launch(in, k::dropout, op,
                    {.type = type_of(in.dtype(op.x)),
                     .n = in.shape(op.x).stored(),
                     .number = op.number,
                     .below = keep_below(op.p),
                     .scale = static_cast<float>(1 / (1 - op.p))});
}

}  // namespace ct::cuda
