#include "kernels/dropout.h"

#include "device/cuda/one_launch.h"
#include "graph/dropout_key.h"

namespace ct::cuda {

namespace k = kernels;

namespace {

k::DropoutArgs args_of(const Dropout& op, const Context& in) {
  return {.type = type_of(in.dtype(op.x)),
          .n = in.shape(op.x).stored(),
          .number = op.number,
          .below = keep_below(op.p),
          .scale = static_cast<float>(1 / (1 - op.p))};
}

}  // namespace

std::unique_ptr<Kernel> prepare(const Dropout& op, const Context& in) {
  return one_launch(in, k::dropout, op, args_of(op, in));
}

std::unique_ptr<Kernel> prepare_both(const Dropout& drop, const ActivationGrad& op, const Context& in) {
  k::DropoutArgs args = args_of(drop, in);
  args.activation = op.activation;
  return make_plain_kernel(in.label(), [=, stream = in.stream()](const Operands& at) {
    k::DropoutArgs a = at.put(drop, args);
    a.at = at.at(op.x);
    a.y = at.at(op.dx);
    return [=] { CT_CUDA(k::dropout(a, stream)); };
  });
}

std::unique_ptr<Kernel> prepare_both(const Linear& linear, const Dropout& drop, const Context& in) {
  k::DropoutArgs args = args_of(drop, in);
  args.activation = linear.activation;
  return prepare(linear, in, [=, stream = in.stream()](const Operands& at) {
    k::DropoutArgs a = at.put(drop, args);
    a.x = at.at(sums_of(linear));
    return [=] { CT_CUDA(k::dropout(a, stream)); };
  });
}

}  // namespace ct::cuda
