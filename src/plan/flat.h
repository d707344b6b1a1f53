// The flat order: every parameter at a fixed place in one long range, unit by unit, weights before vectors. Gradients
// and optimizer state use the same places, so an update, a sum over ranks or a shard is a range, whatever the model.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace ct {

inline constexpr int64_t kChunk = 4096;

struct FlatLayout {
  std::vector<Range> parameters;  // by parameter index: its storage; begins are multiples of kRowPad
  std::vector<Range> units;
  /// Pieces of at most kChunk elements, cut inside each parameter: the grain of norms and shards, so that neither
  /// padding nor the number of ranks moves a boundary of a sum.
  std::vector<Range> chunks;
  int64_t numel = 0;
};

FlatLayout flatten_parameters(const Graph& graph);

/// N+1 bounds that deal whole chunks to ranks as evenly as they go.
std::vector<int64_t> shard_bounds(const FlatLayout& flat, int ranks);

/// Maximal ranges of parameters that all decay or all do not, in flat order.
struct DecayRange {
  Range range;
  bool decays;
};
std::vector<DecayRange> decay_ranges(const Graph& graph, const FlatLayout& flat, bool decay_vectors);

}  // namespace ct
