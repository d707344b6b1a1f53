// Position embeddings for pictures of another size, resampled as in timm.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace ct {

/// Rows and columns of tokens.
struct TokenGrid {
  int64_t height = 0, width = 0;
  int64_t tokens() const { return height * width; }
};

/// A network's position embeddings: `before` tokens, then those of the grid.
struct Positions {
  size_t parameter = 0;
  int64_t before = 0;
  TokenGrid grid;
};
std::optional<Positions> positions_of(const Graph& graph);

/// Embeddings [before + height * width][numbers] of tokens on grid `from`, brought to grid `to` by bicubic filters
/// (Keys, 1981, with a = -0.5) that widen if the grid shrinks; those of the `before` tokens do not change.
std::vector<float> resample_positions(std::span<const float> values, int64_t before, TokenGrid from, TokenGrid to);

}  // namespace ct
