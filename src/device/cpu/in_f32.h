// bf16 for operations whose kernels know only f32: operands are converted on the way in and results on the way out.
#pragma once

#include <memory>

#include "device/cpu/layers.h"

namespace ct::cpu {

/// `op` over values of which some are bf16: computed in workspace copies of f32.
std::unique_ptr<Kernel> prepare_in_f32(const ComputeOp& op, const std::vector<Value>& values,
                                       ConvolutionAlgorithms& convolutions);

}  // namespace ct::cpu
