#include "kernels/dropout.h"

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"
#include "graph/dropout_key.h"

namespace ct::cuda {

namespace k = kernels;

std::unique_ptr<Kernel> prepare(const Dropout& op, const Context& in) {
  return make_plain_kernel(in.label(), [op, n = in.shape(op.x).stored(), type = type_of(in.dtype(op.x)),
                                        stream = in.stream()](const Operands& at) {
    const k::DropoutArgs args{.type = type,
                              .n = n,
                              .key = at.at<const DropoutKey>(op.key),
                              .number = op.number,
                              .below = keep_below(op.p),
                              .scale = static_cast<float>(1 / (1 - op.p)),
                              .x = at.at(op.x),
                              .y = at.at(op.y)};
    return [=] { CT_CUDA(k::dropout(args, stream)); };
  });
}

}  // namespace ct::cuda
