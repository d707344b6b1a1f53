// The canonical sum of gradients over micro-batches.
#pragma once

#include <cstdint>
#include <span>

namespace ct::cpu {

/// out = levels[k] + (... (levels[1] + (levels[0] + x))): one pass for all merges of a leaf. out may be x or a level.
void tree_add(const float* x, std::span<const float* const> levels, float* out, int64_t n);

}  // namespace ct::cpu
