// A prepared operation that is one launch of one kernel.
#pragma once

#include <memory>

#include "device/cuda/check.h"
#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"

namespace ct::cuda {

/// launch(args, stream) with the addresses of the operands in `args` (Operands::put), and a workspace of that many
/// bytes if `args` has one.
template <class Op, class Args>
std::unique_ptr<Kernel> one_launch(const Context& in, cudaError_t (*launch)(const Args&, cudaStream_t), const Op& op,
                                   const Args& args, size_t workspace_bytes = 0) {
  auto bind = [=, stream = in.stream()](const Operands& at, std::byte* workspace) {
    Args a = at.put(op, args);
    if constexpr (requires { a.workspace; }) a.workspace = reinterpret_cast<decltype(a.workspace)>(workspace);
    return [=] { CT_CUDA(launch(a, stream)); };
  };
  return std::make_unique<CudaKernel<decltype(bind)>>(in.label(), workspace_bytes, std::move(bind));
}

}  // namespace ct::cuda
