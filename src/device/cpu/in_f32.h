// bf16 for operations with f32 kernels only: operands and results are converted.
#pragma once

#include <memory>

#include "device/cpu/layers.h"

namespace ct::cpu {

/// Prepares `op` over values, some of which are bf16, with f32 copies in the workspace.
std::unique_ptr<Kernel> prepare_in_f32(const ComputeOp& op, const std::vector<Value>& values,
                                       ConvolutionAlgorithms& convolutions);

}  // namespace ct::cpu
