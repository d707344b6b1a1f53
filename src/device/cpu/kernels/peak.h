// The peak rate of this core's arithmetic, for benchmarks.
#pragma once

#include <cstdint>
#include <span>

namespace ct::cpu {

/// `rounds` rounds of independent fused multiply-adds in registers; returns the flops done. `sink` keeps the result.
int64_t multiply_adds(int64_t rounds, float* sink);

}  // namespace ct::cpu
