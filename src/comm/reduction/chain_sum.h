// The vector kernel of all sums over micro-batches and ranks.
#pragma once

#include <cstdint>
#include <span>

namespace ct {

/// The longest range for chain_sum, short enough that a tree's partial sums stay in the first-level cache.
inline constexpr int64_t kChainBlock = 1024;

/// out[i] = terms[n-1][i] + (... + (terms[1][i] + terms[0][i])) for i < numel <= kChainBlock; n = terms.size() >= 1.
/// f32; each addition is rounded. out may be one of the terms; any alignment.
void chain_sum(std::span<const float* const> terms, float* out, int64_t numel);

}  // namespace ct
