// A prepared operation that is one launch of one kernel.
#pragma once

#include <memory>

#include "device/cuda/check.h"
#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"

namespace ct::cuda {

/// fill(operands, args) completes the arguments of launch(args, stream).
template <class Args, class Fill>
std::unique_ptr<Kernel> one_launch(const Context& in, cudaError_t (*launch)(const Args&, cudaStream_t), Args args,
                                   Fill fill) {
  return make_plain_kernel(in.label(), [=, stream = in.stream()](const Operands& at) {
    Args a = args;
    fill(at, a);
    return [=] { CT_CUDA(launch(a, stream)); };
  });
}

}  // namespace ct::cuda
